package config

import (
	"cmp"
	"net/netip"
	"slices"
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
	Keep         Duration `yaml:"keep"`         // for which a task is kept after its end, at least budget.per; default 2160h
}

// Budget is what tasks may cost, in US dollars.
type Budget struct {
	TotalUSD float64  `yaml:"totalUsd"` // all agents of a tenant together; 0 = no limit
	AgentUSD float64  `yaml:"agentUsd"` // each agent; 0 = no limit
	Per      Duration `yaml:"per"`      // counted over this time, up to now; default 720h
}

// with returns h with every member that file has.
func (h Hub) with(file Hub) Hub {
	h.PlainHTTP = h.PlainHTTP || file.PlainHTTP
	h.Allow = slices.Concat(h.Allow, file.Allow)
	h.Budget.TotalUSD = cmp.Or(file.Budget.TotalUSD, h.Budget.TotalUSD)
	h.Budget.AgentUSD = cmp.Or(file.Budget.AgentUSD, h.Budget.AgentUSD)
	h.Budget.Per = cmp.Or(file.Budget.Per, h.Budget.Per)
	h.OfflineAfter = cmp.Or(file.OfflineAfter, h.OfflineAfter)
	h.RateLimit = cmp.Or(file.RateLimit, h.RateLimit)
	h.Overlap = cmp.Or(file.Overlap, h.Overlap)
	h.Keep = cmp.Or(file.Keep, h.Keep)
	return h
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
	atLeastZero(c, "hub.keep", h.Keep)
	c.rate("hub.rateLimit", h.RateLimit)
}
