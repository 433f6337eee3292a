package config

import (
	"net/url"
	"slices"
	"strings"

	"github.com/agentbus/agentbus/pkg/redact"
)

// The backends of agents that another server runs behind HTTP.
const (
	BackendA2A       = "a2a"       // one that is served as A2A
	BackendHTTP      = "http"      // one that implements the contract of schemas/agent
	BackendAGUI      = "agui"      // one that is served as AG-UI
	BackendAISDK     = "ai-sdk"    // one behind a route of the AI SDK
	BackendLangGraph = "langgraph" // one of a LangGraph Agent Server
)

// The values of Agent.Send.
const (
	SendAll = "all"
	SendNew = "new"
)

// BehindHTTP reports whether another server runs the agent, at its URL.
func (a Agent) BehindHTTP() bool { return slices.Contains(behindHTTP(), a.Backend) }

func behindHTTP() []string {
	return []string{BackendA2A, BackendAGUI, BackendAISDK, BackendHTTP, BackendLangGraph}
}

// upstream checks what an agent says about the server that runs it, or that it says nothing.
func (c checker) upstream(path string, a Agent) {
	atLeastZero(c, join(path, "quiet"), a.Quiet)
	if strings.ContainsAny(a.SigningKeyEnv, "= \n") || strings.HasPrefix(a.SigningKeyEnv, "whsec_") {
		c.report(join(path, "signingKeyEnv"), "is the name of an environment variable, never the key itself")
	}
	if a.SigningKeyEnv != "" && a.Backend != BackendHTTP {
		c.report(join(path, "signingKeyEnv"), "is only for backend: http; remove it, or change the backend")
	}
	c.choice(join(path, "send"), a.Send, SendAll, SendNew)
	switch {
	case a.Send != "" && a.Backend == BackendHTTP:
		c.report(join(path, "send"), "is not for backend http, whose requests say which messages are known; remove it")
	case a.Send != "" && a.Backend == BackendLangGraph:
		c.report(join(path, "send"), "is not for backend langgraph, which sends new messages alone; remove it")
	case a.Backend == BackendLangGraph && a.Assistant == "":
		c.report(path, "has no assistant; add the id of an assistant or graph of the server, such as assistant: agent")
	case a.Assistant != "" && a.Backend != BackendLangGraph:
		c.report(join(path, "assistant"), "is only for backend: langgraph; remove it, or change the backend")
	}
	if a.Send != "" && a.Backend == BackendA2A {
		c.report(join(path, "send"), "is not for backend a2a, whose contexts always get the new messages alone; remove it")
	}
	if !a.BehindHTTP() {
		for member, set := range map[string]bool{"url": a.URL != "", "quiet": a.Quiet != 0, "send": a.Send != ""} {
			if set && slices.Contains(c.known.Backends, a.Backend) {
				c.report(join(path, member), "is for the backends %s; remove it, or change the backend", strings.Join(behindHTTP(), ", "))
			}
		}
		return
	}
	u, err := url.Parse(a.URL)
	switch {
	case a.URL == "":
		c.report(path, "has no url; add the address of the agent, such as url: http://127.0.0.1:9000/agent")
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "":
		c.report(join(path, "url"), "%q is not the address of an agent; write one such as https://agent.example.com/run, without a user or fragment",
			redact.URL(a.URL))
	}
	if a.BaseURL != "" {
		c.report(join(path, "baseURL"), "is the address of a model's provider; write url")
	}
}
