// The published conformance suite of Durable Streams, for TestDurableStreamsConformance of services/gateway.
import { runConformanceTests } from "@durable-streams/server-conformance-tests";

runConformanceTests({ baseUrl: process.env.STREAMS_URL, longPollTimeoutMs: 10_000 });
