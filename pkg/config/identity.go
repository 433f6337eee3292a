package config

import "github.com/agentbus/agentbus/pkg/id"

// IdentityProvider is a provider of OpenID Connect: see pkg/auth/oidc.
type IdentityProvider struct {
	Issuer       string   `yaml:"issuer"`       // URL, as in the claim "iss" of the tokens
	Audience     string   `yaml:"audience"`     // in the claim "aud" of the tokens
	Tenant       string   `yaml:"tenant"`       // of all users; or tenantClaim
	TenantClaim  string   `yaml:"tenantClaim"`  // the claim that holds the tenant of a user
	SubjectClaim string   `yaml:"subjectClaim"` // the claim that identifies a user; default sub
	Scopes       []string `yaml:"scopes"`       // of all users; default read and run; or scopesClaim
	ScopesClaim  string   `yaml:"scopesClaim"`  // the claim that holds the scopes of a user
	ScopesPrefix string   `yaml:"scopesPrefix"` // of our scopes in that claim, such as "agentbus:"; default none
}

func (c checker) identity(path string, p IdentityProvider) {
	c.httpURL(join(path, "issuer"), p.Issuer)
	if p.Issuer == "" {
		c.report(path, "has no issuer; add the URL of the identity provider")
	}
	if p.Audience == "" {
		c.report(path, "has no audience; add the one that tokens for this gateway have, or it would accept tokens for other services")
	}
	if (p.Tenant == "") == (p.TenantClaim == "") {
		c.report(path, "needs either tenant, of all its users, or tenantClaim, the claim that holds the tenant")
	}
	if p.Tenant != "" && !id.Valid(p.Tenant) {
		c.report(join(path, "tenant"), "no tenant can have this name: one is ^[A-Za-z0-9_-]{1,64}$")
	}
	if len(p.Scopes) > 0 && p.ScopesClaim != "" {
		c.report(path, "has scopes and scopesClaim; remove one of them")
	}
	if p.ScopesPrefix != "" && p.ScopesClaim == "" {
		c.report(path, "has scopesPrefix without scopesClaim; add the claim")
	}
}
