package deploytest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// nack is the specs of the resources of NACK: streams, consumers, buckets.
type nack struct {
	Name, Bucket, StreamName, DurableName       string
	Subjects, FilterSubjects                    []string
	Storage, Retention, Discard, AckPolicy      string
	DeliverPolicy                               string
	DiscardPerSubject, AllowDirect, HeadersOnly bool
	MaxAge, DuplicateWindow, AckWait, TTL       string
	MaxBytes, MaxMsgs, MaxMsgsPerSubject        int64
	MaxDeliver, MaxAckPending, Replicas         int
	History                                     int64
	Republish                                   struct{ Source, Destination string }
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestResourcesOfNACKAreWhatTheServicesNeed(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	connection, err := nats.Connect(b.nats.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	js, err := jetstream.New(connection)
	if err != nil {
		t.Fatal(err)
	}
	unseen := map[string]bool{} // streams, and durable consumers as STREAM/CONSUMER
	for name := range js.StreamNames(t.Context()).Name() {
		unseen[name] = true
		stream, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		for consumer := range stream.ConsumerNames(t.Context()).Name() {
			unseen[name+"/"+consumer] = true
		}
	}
	for _, o := range parse(t, read(t, "k8s/nack/streams.yaml")) {
		var document struct {
			Spec nack `json:"spec"`
		}
		if err := json.Unmarshal(o.text, &document); err != nil { //nolint:musttag // nack has the names of NACK
			t.Fatal(err)
		}
		n := document.Spec
		name := map[string]string{"Stream": n.Name, "Consumer": n.StreamName, "KeyValue": "KV_" + n.Bucket, "ObjectStore": "OBJ_" + n.Bucket}[o.kind]
		stream, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Errorf("%s %s: the services have no stream %s: %v", o.kind, o.name, name, err)
			continue
		}
		if o.kind == "Consumer" {
			delete(unseen, name+"/"+n.DurableName)
			compareConsumer(t, n, stream)
			continue
		}
		delete(unseen, name)
		if n.Replicas != 3 {
			t.Errorf("%s %s has %d replicas, want 3", o.kind, o.name, n.Replicas)
		}
		compareStream(t, o.kind, n, stream.CachedInfo().Config)
	}
	for name := range unseen {
		t.Errorf("no resource creates the stream or consumer %s", name)
	}
}

// compareStream compares what the resource says with the stream that the services create. The limits of bytes differ: they
// depend on the server.
func compareStream(t *testing.T, kind string, got nack, want jetstream.StreamConfig) {
	t.Helper()
	equal := func(what string, got, want any) {
		t.Helper()
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %s is %v, want %v", want, what, got, want)
		}
	}
	equal("storage of "+want.Name, got.Storage, strings.ToLower(want.Storage.String()))
	if want.RePublish != nil {
		equal("republish of "+want.Name, got.Republish, struct{ Source, Destination string }{want.RePublish.Source, want.RePublish.Destination})
	}
	switch kind {
	case "KeyValue":
		equal("history of "+want.Name, got.History, want.MaxMsgsPerSubject)
		equal("ttl of "+want.Name, duration(t, got.TTL), want.MaxAge)
	case "ObjectStore":
		equal("ttl of "+want.Name, duration(t, got.TTL), want.MaxAge)
	case "Stream":
		equal("subjects of "+want.Name, got.Subjects, want.Subjects)
		equal("retention of "+want.Name, got.Retention, strings.ToLower(want.Retention.String()))
		equal("discard of "+want.Name, got.Discard, strings.TrimPrefix(strings.ToLower(want.Discard.String()), "discard"))
		equal("discardPerSubject of "+want.Name, got.DiscardPerSubject, want.DiscardNewPerSubject)
		equal("allowDirect of "+want.Name, got.AllowDirect, want.AllowDirect)
		equal("maxAge of "+want.Name, duration(t, got.MaxAge), want.MaxAge)
		equal("duplicateWindow of "+want.Name, duration(t, got.DuplicateWindow), want.Duplicates)
		equal("maxMsgs of "+want.Name, max(got.MaxMsgs, 0), max(want.MaxMsgs, 0))
		equal("maxMsgsPerSubject of "+want.Name, max(got.MaxMsgsPerSubject, 0), max(want.MaxMsgsPerSubject, 0))
	}
}

func compareConsumer(t *testing.T, got nack, stream jetstream.Stream) {
	t.Helper()
	consumer, err := stream.Consumer(t.Context(), got.DurableName)
	if err != nil {
		t.Errorf("the services have no consumer %s of %s: %v", got.DurableName, got.StreamName, err)
		return
	}
	want := consumer.CachedInfo().Config
	filters := want.FilterSubjects
	if want.FilterSubject != "" {
		filters = []string{want.FilterSubject}
	}
	if got.AckPolicy != "explicit" || want.AckPolicy != jetstream.AckExplicitPolicy || duration(t, got.AckWait) != want.AckWait ||
		got.MaxDeliver != want.MaxDeliver || got.HeadersOnly != want.HeadersOnly || got.MaxAckPending != want.MaxAckPending || !slices.Equal(got.FilterSubjects, filters) {
		t.Errorf("consumer %s is %+v, want %+v", got.DurableName, got, want)
	}
}
