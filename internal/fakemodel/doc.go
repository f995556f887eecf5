// Package fakemodel is a scripted stand-in for the Anthropic Messages API and the
// OpenAI Responses API on loopback: a host that is pointed at it runs its real code, hooks included,
// and the model says what a script makes it say.
//
// It has two users. The end-to-end tests drive the real client through whole
// stories. And the launcher, in production, proves the gate before it execs the
// client: a model of one step asks for a mutator, and the launcher waits for the
// tool result that the client sends back.
//
//	m, err := fakemodel.Start(fakemodel.Script{Steps: []fakemodel.Step{
//		fakemodel.Use("Bash", `{"command":"true"}`),
//	}})
//	// start the client with ANTHROPIC_BASE_URL=m.URL() and ANTHROPIC_API_KEY=m.Key(),
//	// or with m.URL()+"/v1" as a provider's base_url and m.Key() as its bearer token
//	result, err := m.Result(ctx, fakemodel.CallID(1))
//	err = m.Close()
//
// A script is a list of steps; each model request takes the next one, and what
// comes after the last is answered "done". A step is a function of the request,
// so that it can demand things of what the client sent, take its words out of
// them (Request.Find), or do something in between, such as approving a lease. A
// step that returns an error ends its conversation and is told by Err.
// Subagents are further conversations (Script.Others); requests that offer no
// tools (titles, summaries) are asides and take no step. One server speaks both
// APIs, and a script is the same for both.
//
// The server listens on 127.0.0.1 alone, and every other process of the machine
// can reach that. So it answers only requests that carry Key, which is random;
// the others get a 401 and are counted. It keeps what it was sent, up to
// MaxBody a request and MaxKept in all, and no header that carries a secret.
// Close ends every request and goroutine.
//
// It is no model and no proxy: nothing leaves the machine, and a host that
// talks to another address is not noticed here. What the client does after the
// script ended is the client's affair.
package fakemodel
