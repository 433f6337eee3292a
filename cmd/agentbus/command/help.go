package command

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"

	"github.com/agentbus/agentbus/pkg/service"
	"github.com/alecthomas/kong"
)

type helpCommand struct {
	Command []string `arg:"" optional:"" help:"Name of a command."`
}

// Run prints the help of all commands. Run of package command replaces "help NAME" by "NAME --help" before.
func (cmd *helpCommand) Run(k *kong.Context) error {
	trace, err := kong.Trace(k.Kong, nil)
	if err != nil {
		return err
	}
	return trace.PrintUsage(false)
}

// printHelp prints the help of a command, without the flags of a gateway for a command that calls none.
func printHelp(o kong.HelpOptions, k *kong.Context) error {
	for node := k.Selected(); node != nil; node = node.Parent {
		if node.Tag != nil && node.Tag.Has("local") {
			for _, flag := range k.Model.Flags {
				flag.Hidden = flag.Hidden || flag.Name == "url" || flag.Name == "key"
			}
		}
	}
	return kong.DefaultHelpPrinter(o, k)
}

type versionCommand struct{}

func (cmd *versionCommand) Run(g globals, c *console) error {
	platform := runtime.GOOS + "/" + runtime.GOARCH
	if g.JSON {
		return line(c.out, map[string]string{"version": service.Version(), "go": runtime.Version(), "platform": platform})
	}
	_, err := fmt.Fprintln(c.out, "agentbus", service.Version(), runtime.Version(), platform)
	return err
}

// versionFlag prints the version and ends the command line.
type versionFlag bool

// BeforeReset is called by kong when the flag is set.
func (versionFlag) BeforeReset(k *kong.Kong, c *console) error {
	err := (&versionCommand{}).Run(globals{}, c)
	k.Exit(0)
	return err
}

type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// completions are the scripts by shell. Each asks the program for the words that may follow.
func completions() map[string]string {
	return map[string]string{
		"bash": `# source <(agentbus completion bash)
_agentbus() {
	local IFS=$'\n'
	COMPREPLY=($(compgen -W "$(agentbus complete -- "${COMP_WORDS[@]:1:COMP_CWORD-1}" 2>/dev/null)" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _agentbus agentbus
`,
		"zsh": `#compdef agentbus
# source <(agentbus completion zsh)
_agentbus() {
	local -a found
	found=("${(@f)$(agentbus complete -- "${(@)words[2,CURRENT-1]}" 2>/dev/null)}")
	compadd -a found || _files
}
compdef _agentbus agentbus
`,
		"fish": `# agentbus completion fish | source
complete -c agentbus -a '(agentbus complete -- (commandline -opc)[2..] 2>/dev/null)'
`,
	}
}

func (cmd *completionCommand) Run(c *console) error {
	_, err := fmt.Fprint(c.out, completions()[cmd.Shell])
	return err
}

// completeCommand prints the words that may follow others, for the scripts of completionCommand.
type completeCommand struct {
	Words []string `arg:"" optional:"" passthrough:""`
}

func (cmd *completeCommand) Run(k *kong.Context, c *console) error {
	node := k.Model.Node
	words := slices.DeleteFunc(cmd.Words, func(w string) bool { return strings.HasPrefix(w, "-") })
	for _, word := range words {
		if i := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == word }); i >= 0 {
			node = node.Children[i]
		}
	}
	for _, word := range following(node) {
		if _, err := fmt.Fprintln(c.out, word); err != nil {
			return err
		}
	}
	return nil
}

// following lists the commands below a node, the values of its first argument, and its flags.
func following(node *kong.Node) []string {
	var words []string
	for _, child := range node.Children {
		if !child.Hidden {
			words = append(words, child.Name)
		}
	}
	if len(node.Positional) > 0 {
		values := slices.Sorted(maps.Keys(node.Positional[0].EnumMap()))
		words = append(words, slices.DeleteFunc(values, func(v string) bool { return v == "" })...)
	}
	for _, flags := range node.AllFlags(true) {
		for _, flag := range flags {
			words = append(words, "--"+flag.Name)
		}
	}
	return words
}
