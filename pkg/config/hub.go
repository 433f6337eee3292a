package config

import (
	"net/netip"
	"strconv"
	"strings"
)

// Hub configures how the hub treats remote agents (TARS hub protocol).
type Hub struct {
	PlainHTTP    bool     `yaml:"plainHTTP"`    // agents may be reached without TLS
	Allow        []string `yaml:"allow"`        // hosts, addresses or CIDRs that agents may be at though they are not public
	Budget       Budget   `yaml:"budget"`       // of all tasks; a task and an agent may have smaller ones
	OfflineAfter Duration `yaml:"offlineAfter"` // without a sign of life; default 2m
	RateLimit    Rate     `yaml:"rateLimit"`    // for each API key and each agent; default 600 a minute
	Overlap      Duration `yaml:"overlap"`      // for which the key before stays good when an agent's key is replaced; default 10m
}

// Budget is what tasks may cost, in US dollars.
type Budget struct {
	TotalUSD float64  `yaml:"totalUsd"` // all agents of a tenant together; 0 = no limit
	AgentUSD float64  `yaml:"agentUsd"` // each agent; 0 = no limit
	Per      Duration `yaml:"per"`      // counted over this time, up to now; default 720h
}

func (h Hub) isZero() bool {
	return !h.PlainHTTP && len(h.Allow) == 0 && h.Budget == Budget{} && h.OfflineAfter == 0 && h.RateLimit == Rate{} && h.Overlap == 0
}

func (c checker) hub(h Hub) {
	for i, allowed := range h.Allow {
		if strings.Contains(allowed, "/") {
			if _, err := netip.ParsePrefix(allowed); err != nil {
				c.report("hub.allow["+strconv.Itoa(i)+"]", "%q is not a CIDR; write one such as 10.1.0.0/16, or a host name", allowed)
			}
		}
	}
	for name, usd := range map[string]float64{"totalUsd": h.Budget.TotalUSD, "agentUsd": h.Budget.AgentUSD} {
		if !(usd >= 0 && usd < 1e9) { // also finds NaN
			c.report("hub.budget."+name, "must be an amount in US dollars, 0 or more; 0 means no limit")
		}
	}
	atLeastZero(c, "hub.budget.per", h.Budget.Per)
	atLeastZero(c, "hub.offlineAfter", h.OfflineAfter)
	atLeastZero(c, "hub.overlap", h.Overlap)
	c.rate("hub.rateLimit", h.RateLimit)
}
