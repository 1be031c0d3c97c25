/**
 * The page "Device Tool Bridge", the contract that clients of the bridge are written against.
 *
 * An entry is every sentence, sample, row, list item and arrow that says what the server does or accepts. No entries are
 * made of: what such tools are good for, what the client does on its own side, advice on how to use the bridge, reasons
 * for a rule that is an entry itself, what is promised for later, names of the publisher's source files, and links.
 * The page's text has lost its four tables (fields of an entry, of a call, of a result body; response codes). Their
 * rows stand here as the publisher's own code answers them, with 410, which only that code has.
 */
import { at, section } from "./manifest.ts";

const intro = section("bridge.intro", "Run tools on the client device", {
  2: "a client declares tools to a session",
  3: "to the agent, a device tool looks exactly like a built-in one",
});

const flow = section("bridge.flow", "The flow", {
  declare: at("diagram, node 1", "the client POSTs /query with context.device_tools"),
  call: at("diagram, node 2", "the agent calls the tool"),
  deliver: at("diagram, node 3", "the server emits device_tool_call on the session's SSE stream"),
  execute: at("diagram, node 4", "the client runs the tool; until it posts, the call waits"),
  result: at("diagram, node 5", "the client POSTs to device_tools/{call_id}/result"),
  resolve: at("diagram, node 6", "the tool call returns and the run continues"),
  again: at("diagram, dotted arrow", "the agent may call another device tool"),
  "1a": "there is no separate registration endpoint",
  "1b": "there is no polling endpoint: nothing has to be asked for repeatedly",
  2: "the bridge reuses the session's stream",
});

const declare = section("bridge.declare", "1. Declare the tools", {
  1: "context.device_tools of POST /api/sessions/{session_id}/query declares tools, as an array",
  sample: at("sample", "the sample request is accepted, with the key in X-API-KEY"),
  2: "each entry has three fields",
  tool_id: at("table of fields, row tool_id", "required; device_ and 1 to 48 of a-z, 0-9 and _"),
  description: at("table of fields, row description", "required; a text that is not blank"),
  parameters: at("table of fields, row parameters", "required; a JSON Schema object, shown to the model as it is"),
  3: "the prefix device_ is mandatory",
  4: "a declared tool cannot shadow a built-in or plugin tool",
  "5a": "a malformed spec is rejected with 400",
  "5b": "two entries that share a tool_id are rejected with 400",
  "5c": "the rejection comes before anything persists",
  "5d": "a bad declaration cannot poison the session",
  "6a": "POST /api/sessions takes a declaration, too",
  "6b": "what was declared at create time persists with the session",
  "7a": "validation happens when a query is sent, not at create time",
  "7b": "binding happens when a query is sent",
  "7c": "a declaration that is sent again keeps it current",
  8: "an idle session that is engaged again accepts a declaration persisted earlier rather than failing",
});

const receive = section("bridge.receive", "2. Receive the pending call", {
  1: "a call of a declared tool appends a device_tool_call event to the session",
  2: "it arrives on GET /api/sessions/{session_id}/stream",
  sample: at(
    "sample",
    'the frame is `data: {"type": "device_tool_call", "payload": {…}}`, with five keys in the payload',
  ),
  call_id: at("table of payload fields, row call_id", "names the call, and goes into the result's URL"),
  call_token: at("table of payload fields, row call_token", "single use; authorises exactly this call"),
  tool_id: at("table of payload fields, row tool_id", "the declared tool"),
  args: at("table of payload fields, row args", "the model's arguments, an object"),
  expires_at: at("table of payload fields, row expires_at", "epoch seconds, after which the server does not wait"),
  5: "the arguments are args and not arguments, the tool's name is tool_id and not name",
  6: "the call is delivered only if a client is attached to the session's stream",
  "7a": "with nobody listening the agent's call fails immediately with device_unavailable",
  "7b": "with nobody listening no event is appended",
  8: "a stream that was attached before the query is sent gets the call",
});

const execute = section("bridge.execute", "3. Execute and post the result", {
  1: "the outcome goes to POST /api/sessions/{session_id}/device_tools/{call_id}/result",
  2: "success is status ok with the return value in result",
  "sample-ok": at("sample 1", "the sample result is accepted"),
  "3a": "the agent's tool call resolves with the result",
  "3b": "the run continues",
  4: "failure is posted to the same route with status error",
  "5a": "an error with a non-empty code or a non-empty message is enough",
  "5b": "an error with neither is not taken",
  "sample-error": at("sample 2", "the sample error is accepted"),
  "6a": "the agent sees the call as a failed tool step",
  "6b": "it continues with that error in context",
});

const image = section("bridge.image", "Returning an image", {
  1: "a result may carry one image, which the model sees as an image rather than as text",
  2: "it is base64 in image_base64 of the result object, its type in image_media_type",
  sample: at("sample", "the sample result with an image is accepted"),
  "3a": "the two fields are lifted out of the JSON",
  "3b": "the image is attached to the result that the model reads, as it was sent",
  4: "the rest of the result object arrives alongside it as text",
  6: "the base64 never reaches the transcript",
  "7a": "the stored history does not grow by the size of the image",
  "7b": "reading the history back does not download it again",
  8: "an image comes with status ok only",
  9: "a failed result is text",
  10: "no request with a non-text block in a failed result reaches the model's provider",
  "14a": "older images are removed from the conversation when it gets long",
  "14b": "a note in their place says that the image can be requested again",
  15: "the newest image is kept",
});

const body = section("bridge.body", "Returning an image", {
  call_token: at("table of result body fields, row call_token", "required; a non-empty text"),
  status: at("table of result body fields, row status", "required; ok or error"),
  result: at("table of result body fields, row result", "when ok: any JSON; missing counts as null"),
  error: at("table of result body fields, row error", "when error: an object with code or message"),
  unknown: at("table of result body fields, below", "unknown keys are ignored"),
});

const codes = section("bridge.codes", "Returning an image", {
  200: at("table of response codes, row 200", "delivered: the waiting call resolves; {resolved: true}"),
  400: at("table of response codes, row 400", "malformed body; {message}"),
  401: at("table of response codes, row 401", "no valid API key"),
  403: at("table of response codes, row 403", "the token does not match; {message}"),
  404: at("table of response codes, row 404", "no pending call with that id; {message}"),
  409: at("table of response codes, row 409", "a result was already delivered; {message}"),
  410: at("table of response codes, row 410", "the session is terminated"),
  order: at("table of response codes, below", "key, 410, 400, 404, 403, 409, 200; a refusal leaves the call pending"),
});

const timeouts = section("bridge.timeouts", "Timeouts and single delivery", {
  1: "a pending call waits 30 seconds",
  "2a": "without a result in time the agent's call fails with device_timeout",
  "2b": "the run continues without it",
  3: "expires_at is that deadline",
  4: "a result may be delivered exactly once",
  "5a": "the first valid POST wins and resolves the call",
  "5b": "a second returns 409",
  6: "a repeated result has no second effect",
});

const security = section("bridge.security", "Security model", {
  "1a": "call_token proves that the caller can read the session's stream: it is nowhere else",
  "1b": "it blocks replay of a delivered result",
  "3a": "any client that views the stream receives the same token",
  "3b": "it is a capability scoped to that one call",
  "5a": "the result route needs a valid API key as well",
  "5b": "as every other session route does",
});

const implementation = section("bridge.implementation", "Implementation", {
  4: "the exact schemas of the result route are in the generated REST API reference",
});

export const DEVICE_TOOL_BRIDGE = {
  ...intro,
  ...flow,
  ...declare,
  ...receive,
  ...execute,
  ...image,
  ...body,
  ...codes,
  ...timeouts,
  ...security,
  ...implementation,
};
