package gateway

// Routes lists what the gateway serves, as "GET /v1/threads/:threadId".
func (g *Gateway) Routes() []string {
	var all []string
	for _, r := range g.api.Routes() {
		all = append(all, r.Method+" "+r.Path)
	}
	return all
}
