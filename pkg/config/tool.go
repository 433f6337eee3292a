package config

import "github.com/agentbus/agentbus/pkg/tool"

// Tool changes how a tool is treated, or, with HTTP or Command, describes a new one.
type Tool struct {
	Approval  tool.Approval `yaml:"approval"` // always, never; default: the tool's own
	Effect    tool.Effect   `yaml:"effect"`   // none, idempotent, unsafe; default: the tool's own
	Timeout   Duration      `yaml:"timeout"`
	MaxOutput int64         `yaml:"maxOutput"` // bytes
	Allow     []string      `yaml:"allow"`     // http: hosts or CIDRs that the egress guard lets through though they are private

	Description string         `yaml:"description"` // of a new tool, for models
	Schema      map[string]any `yaml:"schema"`      // of its arguments
	HTTP        HTTPTool       `yaml:"http"`
	Command     CommandTool    `yaml:"command"`
}

// New reports whether t describes a new tool.
func (t Tool) New() bool { return t.HTTP.URL != "" || len(t.Command.Argv) > 0 }

// Of is a tool's spec with what t changes about it; the rest stays as the tool has it.
func (t Tool) Of(spec tool.Spec) tool.Spec {
	if t.Approval != "" {
		spec.Approval = t.Approval
	}
	if t.Effect != "" {
		spec.Effect = t.Effect
	}
	if t.MaxOutput > 0 {
		spec.MaxOutput = t.MaxOutput
	}
	spec.Timeout = t.Timeout.Or(spec.Timeout)
	return spec
}

// HTTPTool is a tool whose calls are HTTP requests. In its texts "{name}" stands for an argument, "${NAME}" for a secret of
// the environment, and "{{" for a brace.
type HTTPTool struct {
	Method  string            `yaml:"method"`  // default GET
	URL     string            `yaml:"url"`     // its path may contain arguments
	Query   map[string]string `yaml:"query"`   // one whose argument is missing is left out
	Headers map[string]string `yaml:"headers"` // as Query
	Body    any               `yaml:"body"`    // JSON: a text that is one argument keeps its type; default: all arguments
	Result  string            `yaml:"result"`  // JSON pointer to what the model reads of the answer; default: all of it
	Events  bool              `yaml:"events"`  // lines of the answer that begin with "::event " are events; default: they are part of it
}

// CommandTool is a tool whose calls are processes.
type CommandTool struct {
	Argv      []string          `yaml:"argv"`      // of no shell; "{name}" stands for an argument, also within a text
	Stdin     string            `yaml:"stdin"`     // what the process reads; "{name}" as in Argv
	Env       map[string]string `yaml:"env"`       // its whole environment, except for PATH, HOME and LANG; "${NAME}" for a secret
	Dir       string            `yaml:"dir"`       // folder that it runs in; default: an empty one
	Writable  bool              `yaml:"writable"`  // lets it write into Dir
	Read      []string          `yaml:"read"`      // readable folders and files, in addition to those of the system
	Isolation string            `yaml:"isolation"` // strict (default) or best-effort, where the kernel refuses some of it
	Events    bool              `yaml:"events"`    // lines of its output that begin with "::event " are events; default: they are output
	Limits    CommandLimits     `yaml:"limits"`
}

// CommandLimits bound one process and its children.
type CommandLimits struct {
	CPU    Duration `yaml:"cpu"`    // of each process; default: the call's timeout
	Memory int64    `yaml:"memory"` // bytes of private data of each process; default 1 GiB
	// AddressSpace limits the bytes that each process may map, including shared and reserved memory; default: no limit.
	AddressSpace int64 `yaml:"addressSpace"`
	FileSize     int64 `yaml:"fileSize"`  // bytes of each file that it writes; default 64 MiB
	Processes    int   `yaml:"processes"` // and threads, together; default 64
}

// The values of CommandTool.Isolation.
const (
	IsolationStrict     = "strict"
	IsolationBestEffort = "best-effort"
)

// Sandbox is what the programs of tools share.
type Sandbox struct {
	Cgroup string `yaml:"cgroup"` // folder of a cgroup (version 2) that is delegated to the service; "" = none
}

// Files configures the folder of the file tools. Without a root they are disabled.
type Files struct {
	Root     string `yaml:"root"`     // folder that they never leave
	Shared   bool   `yaml:"shared"`   // all threads use Root itself; default: each thread uses a separate folder
	ReadOnly bool   `yaml:"readOnly"` // disables the tools that write
	MaxFile  int64  `yaml:"maxFile"`  // bytes of a file that is read or written; default 1 MiB
}

// The names of the file tools.
const (
	ReadFile    = "read_file"
	WriteFile   = "write_file"
	EditFile    = "edit_file"
	ListFiles   = "list_files"
	SearchFiles = "search_files"
)

// Tools lists the file tools that there are.
func (f Files) Tools() []string {
	switch {
	case f.Root == "":
		return nil
	case f.ReadOnly:
		return []string{ListFiles, ReadFile, SearchFiles}
	default:
		return []string{EditFile, ListFiles, ReadFile, SearchFiles, WriteFile}
	}
}
