// Package archtest holds the rules of the source tree as data, and tests for them: which package may import which
// (layers_test.go), which module may be used where and why (dependencies_test.go), how comments are worded
// (language_test.go), and that every package has a comment. It contains only tests. A new package is covered by the
// patterns; a new direct dependency needs a line.
package archtest
