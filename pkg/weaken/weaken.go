// Package weaken says which safeguards a program goes without. Programs that were built with the tag chaos go without the
// one that AGENTBUS_WEAKEN names, so that cmd/chaos can show that its checker sees what each safeguard is for. Other builds
// have all of them: there [Without] is always false, and the compiler leaves out what depends on it.
package weaken

// Safeguard is something that a program may go without.
type Safeguard string

// The safeguards outside the bus; pkg/bus/weakbus has those of the bus.
const (
	DiscardOpen    Safeguard = "keep-open-blocks"       // a takeover discards the blocks that a dead runner left open
	RepeatBlocks   Safeguard = "repeat-blocks"          // a takeover does not write finished blocks a second time
	Approvals      Safeguard = "lose-approvals"         // a call that was approved runs
	OneResult      Safeguard = "double-results"         // a call's output is written once
	Steers         Safeguard = "skip-steers"            // what a user says to a running request is read
	LastLook       Safeguard = "no-last-look"           // a runner looks for an abort before it writes the end, and while it runs
	AbortBeforeRun Safeguard = "no-abort-before-run"    // an executor looks for an abort before it runs a call
	WholeMessages  Safeguard = "messages-without-calls" // the messages of a thread hold its calls
	WholeHistory   Safeguard = "short-history"          // history answers with every event of a request
	Relay          Safeguard = "no-relay"               // a request shows what the agents do that it has called
	ThreadCursor   Safeguard = "skip-on-return"         // a reader who comes back to a thread gets the next event
	OneTask        Safeguard = "double-tasks"           // the hub makes one task under one key
	RemotePlace    Safeguard = "forget-place"           // a takeover follows a remote task from where its log ends
	OldKeys        Safeguard = "forget-keys"            // a key is looked up in history if the stream does not have it
)
