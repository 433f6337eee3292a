// Command agentbus runs all services in one process with `agentbus dev`. Its other commands run a service, are clients of any
// gateway, or manage API keys.
package main

import "github.com/agentbus/agentbus/pkg/agentbus"

func main() { agentbus.Main() }
