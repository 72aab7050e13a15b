// One agent run by each OTLP exporter of JavaScript: node send.mjs HTTP_PORT GRPC_PORT [RUNS]. Prints the trace ids, a JSON array.
import { createRequire } from "node:module";

const require = createRequire(`${process.env.RUBRICD_SENDERS ?? import.meta.dirname}/package.json`);
const { trace, context } = require("@opentelemetry/api");
const { NodeTracerProvider, BatchSpanProcessor } = require("@opentelemetry/sdk-trace-node");
const http = require("@opentelemetry/exporter-trace-otlp-http");
const proto = require("@opentelemetry/exporter-trace-otlp-proto");
const grpc = require("@opentelemetry/exporter-trace-otlp-grpc");

const [httpPort, grpcPort, runs = "3"] = process.argv.slice(2);
const url = `http://127.0.0.1:${httpPort}/v1/traces`;
const exporters = [
  () => new http.OTLPTraceExporter({ url }),
  () => new http.OTLPTraceExporter({ url, compression: "gzip" }),
  () => new proto.OTLPTraceExporter({ url }),
  () => new proto.OTLPTraceExporter({ url, compression: "gzip" }),
  () => new grpc.OTLPTraceExporter({ url: `http://127.0.0.1:${grpcPort}` }),
  () => new grpc.OTLPTraceExporter({ url: `http://127.0.0.1:${grpcPort}`, compression: "gzip" }),
];
const text = (role, content) => JSON.stringify([{ role, parts: [{ type: "text", content }] }]);

const ids = [];
for (const exporter of exporters) {
  const provider = new NodeTracerProvider({ spanProcessors: [new BatchSpanProcessor(exporter())] });
  const tracer = provider.getTracer("test-agent");
  for (let number = 0; number < Number(runs); number++) {
    const root = tracer.startSpan("invoke_agent shop-bot", {
      attributes: {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "shop-bot",
        "gen_ai.input.messages": text("user", "Ein Tisch für zwei, bitte."),
      },
    });
    const tool = tracer.startSpan(
      "execute_tool book_table",
      {
        attributes: {
          "gen_ai.operation.name": "execute_tool",
          "gen_ai.tool.name": "book_table",
          "gen_ai.tool.call.id": "c1",
          "gen_ai.tool.call.arguments": JSON.stringify({ party_size: 2 }),
          "gen_ai.tool.call.result": JSON.stringify("gebucht ✓"),
        },
      },
      trace.setSpan(context.active(), root),
    );
    tool.end();
    root.setAttribute("gen_ai.output.messages", text("assistant", "Fertig."));
    root.end();
    ids.push(root.spanContext().traceId);
  }
  await provider.shutdown();
}
console.log(JSON.stringify(ids));
