// Package archtest holds the map of the project as data and tests that the code keeps to it: who may import whom
// (layers_test.go), which module may be used where and why (dependencies_test.go), and that every package says what it
// is. It has no code of its own. A new package is covered by the patterns; a new direct dependency needs a line.
package archtest
