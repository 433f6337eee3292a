// This script runs before Tarko's user interface (@tarko/agent-ui-builder). It lets the page
//   - follow its session: runs of other windows, and runs that go on after the page was opened or lost its connection;
//   - show why a query was refused;
//   - go to the login page when the gateway requires a key;
//   - show pictures that the gateway stores: the page's panel takes absolute addresses and data URLs only.
// Both the response of a query and the stream of the session bring the events of a run; each event is passed on once.
(() => {
  "use strict";
  if (window.AGENT_REPLAY_MODE) return; // a shared page has no gateway
  const real = window.fetch.bind(window);
  const root = "/api/v1/sessions";
  const sessions = new Map();
  let source = null;
  let followed = "";

  // session returns what is known of a session: the ids of its events, the increments of open messages, closed messages.
  const session = (id) => {
    if (!sessions.has(id)) {
      sessions.set(id, {id, ids: new Set(), open: new Map(), closed: new Set(), own: false, sending: 0, asking: 0, known: false, running: false, waiting: []});
    }
    return sessions.get(id);
  };

  const isIncrement = (event) => event.type.includes("_streaming");

  // admit reports whether an event is new, and records it.
  const admit = (s, event) => {
    if (isIncrement(event)) {
      const message = event.messageId || "";
      if (s.closed.has(message)) return false;
      if (!s.open.has(message)) s.open.set(message, new Set());
      const ids = s.open.get(message);
      return ids.has(event.id) ? false : Boolean(ids.add(event.id));
    }
    if (s.ids.has(event.id)) return false;
    s.ids.add(event.id);
    if (event.type === "assistant_message" || event.type === "final_answer") {
      s.open.delete(event.messageId);
      s.closed.add(event.messageId);
    }
    if (event.type === "agent_run_start") s.known = s.running = true;
    if (event.type === "agent_run_end") settle(s);
    return true;
  };

  // settle ends the queries of the page that have lost their connection.
  const settle = (s) => {
    s.running = false;
    for (const resolve of s.waiting.splice(0)) resolve();
  };

  // located makes the addresses of stored pictures absolute.
  const located = (event) => {
    for (const parts of [event.content, event.processedContent]) {
      if (!Array.isArray(parts)) continue;
      for (const part of parts) {
        const image = part && part.image_url;
        if (image && typeof image.url === "string" && image.url.startsWith("/v1/threads/")) image.url = location.origin + image.url;
      }
    }
    return event;
  };

  // processor returns the function by which the page takes events. It is the only setter of the page's store that
  // destructures a session and an event; null until the page has been rendered.
  let process = null;
  const processor = () => {
    if (process) return process;
    for (const element of document.querySelectorAll("body, body > *")) {
      const key = Object.keys(element).find((name) => name.startsWith("__reactContainer$"));
      if (key) process = search(element[key].stateNode ? element[key].stateNode.current : element[key]);
      if (process) return process;
    }
    return null;
  };
  const search = (fiber) => {
    const rest = [fiber];
    while (rest.length > 0) {
      const node = rest.pop();
      if (node.sibling) rest.push(node.sibling);
      if (node.child) rest.push(node.child);
      for (let hook = node.memoizedState; hook && typeof hook === "object" && "next" in hook; hook = hook.next) {
        const [store, atom] = (Array.isArray(hook.memoizedState) && Array.isArray(hook.memoizedState[1]) && hook.memoizedState[1]) || [];
        if (store && store.set && atom && atom.write && /\{\s*sessionId:\s*\w+,\s*event:\s*\w+\s*\}\s*=/.test(String(atom.write))) {
          return (sessionId, event) => store.set(atom, {sessionId, event});
        }
      }
    }
    return null;
  };

  const show = (id, event) => {
    const take = processor();
    if (take) take(id, located(event));
    return Boolean(take);
  };

  // deliver shows an event of the session's stream. The page shows no message of a user after one that it has sent itself, so
  // that of another window becomes a notice.
  const deliver = (s, event) => {
    if (!processor() || !admit(s, event)) return;
    if (event.type === "user_message" && s.own && s.sending === 0) {
      const text = Array.isArray(event.content) ? event.content.map((part) => part.text || "").join(" ") : event.content;
      event = {id: event.id, type: "system", level: "info", timestamp: event.timestamp, message: "Sent from another window: " + text};
    }
    show(s.id, event);
  };

  // synchronize shows what the page has missed, and ends queries whose run has ended meanwhile.
  const synchronize = async (s) => {
    try {
      const listed = await (await real(`${root}/events?sessionId=${s.id}`)).json();
      for (const event of listed.events || []) deliver(s, event);
      const now = await (await real(`${root}/status?sessionId=${s.id}`)).json();
      if (now.status && !now.status.isProcessing) settle(s);
    } catch (error) {
      console.warn("agentbus: read the session:", error);
    }
  };

  const follow = (id) => {
    if (followed === id && source && source.readyState !== EventSource.CLOSED) return;
    if (source) source.close();
    followed = id;
    const s = session(id);
    const own = source = new EventSource(`${root}/events/stream?sessionId=${id}`);
    own.onopen = () => synchronize(s);
    own.onmessage = (message) => deliver(s, JSON.parse(message.data));
    own.onerror = () => {
      if (own.readyState === EventSource.CLOSED) setTimeout(() => source === own && follow(id), 3000);
    };
  };

  // notice shows why a query was refused.
  const notice = (id, message) =>
    show(id, {id: "refused-" + Date.now(), type: "system", level: "error", timestamp: Date.now(), message});

  const reason = async (response) => {
    try {
      const {error} = await response.clone().json();
      return (error && error.message) || error || response.statusText;
    } catch {
      return response.statusText;
    }
  };

  const parsed = (text) => {
    try {
      return JSON.parse(text);
    } catch (error) {
      console.error("agentbus: read an event:", error);
      return null;
    }
  };

  // streamed returns the response of a query without the events that the page has already. If the connection is lost, it
  // ends with the run, which the stream of the session shows.
  const streamed = (s, response) => {
    const reader = response.body.getReader(), decoder = new TextDecoder(), encoder = new TextEncoder();
    let rest = "";
    const pull = async (out) => {
      for (let sent = false; !sent;) {
        const {done, value} = await reader.read();
        if (done) return out.close();
        rest += decoder.decode(value, {stream: true});
        const blocks = rest.split("\n\n");
        rest = blocks.pop();
        for (const block of blocks) {
          if (!block.startsWith("data: ")) continue;
          const event = parsed(block.slice(6));
          if (!event || !admit(s, event)) continue;
          out.enqueue(encoder.encode("data: " + JSON.stringify(located(event)) + "\n\n"));
          sent = true;
        }
      }
    };
    const body = new ReadableStream({
      pull: (out) => pull(out).catch(async () => {
        await new Promise((resolve) => s.waiting.push(resolve));
        out.close();
      }),
      cancel: (why) => reader.cancel(why),
    });
    return new Response(body, {status: response.status, headers: response.headers});
  };

  const query = async (input, init) => {
    const s = session(JSON.parse(init.body).sessionId);
    s.own = true;
    s.sending++;
    s.asking++;
    try {
      const response = await real(input, init);
      if (response.ok) {
        follow(s.id);
        return streamed(s, response);
      }
      if (response.status !== 401) notice(s.id, "The query was refused: " + await reason(response));
      return response;
    } catch (error) {
      notice(s.id, "The gateway does not answer: " + error.message);
      throw error;
    } finally {
      s.asking--;
      setTimeout(() => s.sending--, 2000); // its message has come then by either way
    }
  };

  const listed = async (s, response) => {
    const body = await response.json();
    for (const event of body.events) admit(s, located(event));
    return new Response(JSON.stringify(body), {status: response.status, headers: {"Content-Type": "application/json"}});
  };

  // standing corrects the state of a session: the response may be older than the query that the page has sent meanwhile.
  const standing = async (s, response) => {
    const body = await response.json();
    if (s.asking > 0 || s.known) body.status.isProcessing = s.asking > 0 || s.running;
    return new Response(JSON.stringify(body), {status: response.status, headers: {"Content-Type": "application/json"}});
  };

  const answer = async (url, input, init) => {
    if (url.pathname === root + "/query/stream") return query(input, init);
    const response = await real(input, init);
    const id = url.searchParams.get("sessionId");
    if (!response.ok || !id) return response;
    if (url.pathname === root + "/events") return listed(session(id), response);
    if (url.pathname === root + "/status") return standing(session(id), response);
    if (url.pathname === root + "/details") follow(id);
    return response;
  };

  window.fetch = async (input, init) => {
    const url = new URL(input instanceof Request ? input.url : input, location.href);
    if (url.origin !== location.origin || !url.pathname.startsWith("/api/v1/")) return real(input, init);
    const response = await answer(url, input, init);
    if (response.status === 401) location.assign("/login?next=" + encodeURIComponent(location.pathname));
    return response;
  };
})();
