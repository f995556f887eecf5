// Package policy holds what else may deny a call: policy hooks, which are programs
// that an operator trusts, and a policy server. Both can only narrow. Neither is
// asked for what is denied anyway, and neither has a say about a lease.
//
// Call is what either is told. Hooks knows which definitions a call meets; who runs
// them is package hookrun. Evaluator asks the server of [policy_server]:
//
//   - One call is one evaluation with one id, however often it has to be sent.
//   - Sent again is only what can't have made a verdict, or what the server takes up
//     again under the same id: no connection, one that ended, 5xx, and 429 where it
//     says when. Between attempts 1, 2, 4, 8, 10 … s; all in one budget. One that
//     isn't answered in time is not sent again.
//   - A credential that has lapsed is minted anew, once, and the same sent again.
//   - What isn't one of the known verdicts, to the letter, is none, and no verdict is
//     a denial; for a tool's result, which is there already, it is nothing.
//   - A server that was found dead is left alone for a while; its calls are denied.
//   - Nothing comes from the environment: no proxy, no roots, no credential.
package policy
