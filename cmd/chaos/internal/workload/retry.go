package workload

import (
	"context"
	"sync"
	"time"
)

// retrying makes one request many times under one key: by both routes and on two gateways at once, again while it runs,
// and again after its end. Another body under the same key is sent with the first ones, or later.
func (u *user) retrying(ctx context.Context) {
	o := order{body: says("", u.script()), key: u.label("key")}
	another := o
	another.body = says("", "/say another body")
	first := u.group.Gateways[u.rng.IntN(len(u.group.Gateways))]
	var all sync.WaitGroup
	defer all.Wait()
	for _, gateway := range u.group.Gateways {
		twin, at := u.fork(), o
		at.gateway = gateway
		all.Go(func() { twin.again(ctx, at, gateway != first) })
	}
	if u.chance(30) {
		rival := u.fork()
		all.Go(func() { rival.post(ctx, another) })
	}
	for range 1 + u.rng.IntN(3) {
		late, after := u.fork(), u.between(0, 6*time.Second)
		all.Go(func() {
			if !pause(ctx, after) {
				return
			}
			if late.chance(40) {
				late.post(ctx, another)
				return
			}
			late.again(ctx, o, late.chance(50))
		})
	}
}

// again makes a request by either route, and reads it to its end.
func (u *user) again(ctx context.Context, o order, stream bool) {
	r := u.newReader()
	if stream {
		o.stream, o.reader = true, r
	}
	got, seen := u.post(ctx, o)
	if got.taken() && got.request != "" && (stream || u.chance(50)) {
		u.follow(ctx, r, got.request, seen)
	}
}
