package zvmsim

import "net/http"

func (s *Server) admin(w http.ResponseWriter, r *http.Request, path string) { http.NotFound(w, r) }
