package anthropic

import (
	"regexp"
	"strconv"
	"strings"
)

// traits is what differs between models.
type traits struct {
	adaptive  bool // the model decides how much it thinks, and refuses a budget
	always    bool // its thinking cannot be turned off
	effort    bool // it has levels of effort
	sampling  bool // it takes temperature and top_p
	forced    bool // it can be forced to call a tool
	preserved bool // it checks that returned thinking follows the conversation in which it was made
}

// versioned matches the names of models from Claude 4 on, whichever platform adds to them.
var versioned = regexp.MustCompile(`claude-([a-z]+)-(\d{1,2})(?:-(\d{1,2}))?(?:\D|$)`)

// early matches the names of models before Claude 4, which have the version before the family.
var early = regexp.MustCompile(`claude-(\d|instant|v\d)`)

// traitsOf returns the traits of a model by its name. An unknown model of Anthropic counts as a new one; one of another
// provider as one from before Claude 4.6.
func traitsOf(name string) traits {
	old := traits{sampling: true, forced: true}
	if early.MatchString(name) || !strings.Contains(name, "claude-") {
		return old
	}
	family, version := "", 505
	if m := versioned.FindStringSubmatch(name); m != nil {
		major, _ := strconv.Atoi(m[2]) // two digits, as the pattern says
		minor, _ := strconv.Atoi(m[3]) // or none
		family, version = m[1], major*100+minor
	}
	if version < 406 {
		old.effort = family == "opus" && version == 405
		return old
	}
	return traits{
		adaptive: true, effort: true, sampling: version == 406, preserved: version > 500,
		forced: version <= 500 || family == "haiku",
		always: family == "fable" || version > 500 && family != "haiku",
	}
}

// How much a model may think at each level of effort, in tokens: the budget of a model that takes one, and the space that is
// added to the limit of the answer, which includes the thinking.
const (
	lowThinking    = 2048
	mediumThinking = 8192
	highThinking   = 24576
	mostThinking   = 49152
)

// effortOf returns the level of effort that a budget of thinking tokens stands for.
func effortOf(budget int) string {
	switch {
	case budget <= lowThinking:
		return "low"
	case budget <= mediumThinking:
		return "medium"
	case budget <= highThinking:
		return "high"
	default:
		return "xhigh"
	}
}

// budgetOf returns the budget of thinking tokens that a level of effort stands for.
func budgetOf(effort string) int {
	switch effort {
	case "low":
		return lowThinking
	case "medium":
		return mediumThinking
	case "high":
		return highThinking
	default:
		return mostThinking
	}
}
