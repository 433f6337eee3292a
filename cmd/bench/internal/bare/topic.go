package bare

import (
	"io"
	"net/http"
	"sync"
)

// topics is the bare server as a hub: events that are posted to a topic go to its reader. It does only what every hub
// must do, so that results can be compared with those of other hubs that were measured against such a server.
type topics struct {
	mu     sync.Mutex
	byName map[string]chan []byte
}

// topicBacklog is how many events wait for the reader before a post blocks.
const topicBacklog = 64

func (t *topics) topic(name string) chan []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	topic := t.byName[name]
	if topic == nil {
		topic = make(chan []byte, topicBacklog)
		t.byName[name] = topic
	}
	return topic
}

func (t *topics) drop(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byName, name)
}

// post reads one event in its encoded form. An empty body ends the stream.
func (t *topics) post(w http.ResponseWriter, r *http.Request) {
	event, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	select {
	case t.topic(r.PathValue("name")) <- event:
		w.WriteHeader(http.StatusNoContent)
	case <-r.Context().Done():
	}
}

// read streams a topic, and flushes each event.
func (t *topics) read(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	topic := t.topic(name)
	defer t.drop(name)
	w.Header().Set("Content-Type", "text/event-stream")
	flusher := http.NewResponseController(w)
	if flusher.Flush() != nil {
		return // the client has disconnected
	}
	for {
		select {
		case event := <-topic:
			if len(event) == 0 {
				return
			}
			if _, err := w.Write(event); err != nil || flusher.Flush() != nil {
				return // the client has disconnected
			}
		case <-r.Context().Done():
			return
		}
	}
}
