package config

// Gateway bounds what clients may do.
type Gateway struct {
	CORS          []string `yaml:"cors"`          // allowed origins; none = no cross-origin use
	MaxBody       int64    `yaml:"maxBody"`       // bytes; default 512 KiB
	RateLimit     Rate     `yaml:"rateLimit"`     // for each key; default 600 a minute
	Heartbeat     Duration `yaml:"heartbeat"`     // default 15s
	StreamTimeout Duration `yaml:"streamTimeout"` // longest response; default 1h
	Limits        Crowd    `yaml:"limits"`
}

// Rate is a number of requests in a time.
type Rate struct {
	Requests int      `yaml:"requests"`
	Per      Duration `yaml:"per"`
	Burst    int      `yaml:"burst"`
}

// Crowd bounds what one gateway does at once, and how long it waits.
type Crowd struct {
	Connections int      `yaml:"connections"` // of one address; default 1000, and of private addresses any number
	Streams     int      `yaml:"streams"`     // open streams of one principal; default 1000, and without keys any number
	Replays     int      `yaml:"replays"`     // streams that read old events from storage at one time; default 64
	BodyTime    Duration `yaml:"bodyTime"`    // for a client to send a body; default 30s
}
