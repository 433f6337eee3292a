package permissions

import "github.com/agentbus/agentbus/pkg/bus/internal/broker"

func (s *subjects) gateway() {
	s.write(broker.KindAccept, broker.KindThread, broker.KindSession, broker.KindCommand)
	s.queue()
	s.objects(true)
	s.read(s.names.EventsStream(), s.names.ResultsStream(), "KV_"+s.names.StreamName("KEYS"), "KV_"+s.names.StreamName("AGENTS"))
	s.webhooks()
	s.prompts()
	s.ask("history.*", "hub.*", "hub-follow.*")
	s.subscribe(s.live("*"))
}

// prompts allows to serve the agents to clients of the broker.
func (s *subjects) prompts() {
	s.subscribe("agents.prompt.>", "agents.status.>", "$SRV.>")
	s.publish("agents.hb.>")
	s.respond(Client)
	s.publish("_R_.>") // of clients in another account, to which the subjects are exported
}

// webhooks allows to follow the ends of requests and to deliver them to receivers.
func (s *subjects) webhooks() {
	s.consume(s.names.EventsStream(), broker.EndsConsumer)
	s.write(broker.KindDelivery)
	s.consume(s.names.DeliveriesStream(), broker.DeliveryConsumer)
	s.publish(s.bucket("PUSHES"))
	s.read(s.names.DeliveriesStream(), "KV_"+s.names.StreamName("PUSHES"))
}

func (s *subjects) runner() {
	s.write(broker.KindEvent, broker.KindTool)
	s.publish(s.names.Prefix + "." + broker.KindCommand + ".*.*." + broker.KindAbort)
	s.queue()
	s.consume(s.names.RequestsStream(), broker.RunnerConsumer)
	s.objects(true)
	s.read(s.names.EventsStream(), s.names.ResultsStream(), s.names.ToolsStream(), "KV_"+s.names.StreamName("TOOLSETS"))
	s.ask("history.*", "hub.*", "hub-follow.*")
	s.subscribe(s.live("*"), s.names.Wildcard(broker.KindProgress))
}

func (s *subjects) executor() {
	s.write(broker.KindAccept, broker.KindThread, broker.KindStarted, broker.KindResult, broker.KindProgress)
	s.queue()
	s.consume(s.names.ToolsStream(), broker.ExecutorConsumer)
	s.objects(true)
	s.publish(s.bucket("TOOLSETS"))
	s.read(s.names.EventsStream(), s.names.ResultsStream(), "KV_"+s.names.StreamName("TOOLSETS"))
	s.ask("history.*", "hub.*", "hub-follow.*", "executor.*")
	s.serve("executor.*")
	// A call that another executor has in hand is followed.
	s.subscribe(s.live("*"), s.names.Wildcard(broker.KindProgress))
}

func (s *subjects) history() {
	s.consume(s.names.EventsStream(), broker.HistoryConsumer)
	s.read(s.names.EventsStream(), s.names.RequestsStream(), s.names.BacklogStream())
	s.objects(false)
	s.serve("history.*")
	s.subscribe(s.live("*"))
}

func (s *subjects) hub() {
	s.publish(s.bucket("AGENTS"))
	s.read(s.names.EventsStream(), "KV_"+s.names.StreamName("KEYS"), "KV_"+s.names.StreamName("AGENTS"))
	s.serve("hub.*", "hub-follow.*")
	s.ask("history.*")
	s.subscribe(s.live("*"))
}
