package session

import "slices"

// maxNotes is how many texts wait for a session's model.
const maxNotes = 8

// notes are what is known of a session's model, and what it is still to be told.
type notes struct {
	model string
	texts []string
}

// SpeaksTo notes the model that the host has said to speak to.
func (s *Session) SpeaksTo(model string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes.model = model
}

// Model is that model; empty when the host hasn't said.
func (s *Session) Model() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.notes.model
}

// Tell keeps a text until the model can be told. Of more than a few the oldest
// goes, and those that are there twice.
func (s *Session) Tell(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.notes.texts, text) {
		return
	}
	s.notes.texts = append(s.notes.texts, text)
	if extra := len(s.notes.texts) - maxNotes; extra > 0 {
		s.notes.texts = slices.Clone(s.notes.texts[extra:])
	}
}

// Told takes the texts: whoever asks tells them.
func (s *Session) Told() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	texts := s.notes.texts
	s.notes.texts = nil
	return texts
}
