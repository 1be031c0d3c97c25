/**
 * The page "Tools your client executes", the contract that clients of suspended runs are written against.
 *
 * An entry is every sentence, sample, row and list item that says what the platform does, accepts or refuses. No entries
 * are made of: what such tools are good for, names, what the client does on its own side, advice on how to use them,
 * reasons for a rule that is an entry itself, and links.
 */
import { at, section } from "./manifest.ts";

const intro = section("client.intro", "Tools your client executes", {
  4: "the platform never executes a client-owned tool",
  5: "when the model calls one, the run waits for the client's answer",
  "6a": "the model reads the answer as the tool's result",
  "6b": "in the same run, which carries on",
  7: "the cycle is submit, stream, suspend, resume",
});

const declare = section("client.declare", "1. Declare the tool", {
  1: "a client-owned tool is an ordinary tool with client_owned: true",
  2: "the model sees its description and input_schema",
  "3a": "nothing in config is ever called",
  "3b": '{"schema_version": 1} is enough of a config',
  sample: at("sample", "the sample POST /tools is accepted, with the key in X-Api-Key"),
  4: "an agent has the tool once it lists its slug in tools",
});

const submit = section("client.submit", '2. Submit with client_tools: "suspend"', {
  1: "the behaviour is opt-in, per run",
  "2a": "without it the model is not shown client-owned tools",
  "2b": "without it a call to one ends the run, with the calls in output.result.client_tool_calls",
  sample: at("sample", "the sample POST /runs is accepted"),
  "client_tools-default": at("table, row client_tools", 'the default is "end"'),
  client_tools: at("table, row client_tools", '"suspend" shows the client-owned tools and waits when one is called'),
  "timeout-default": at("table, row client_tool_timeout_s", "the default is 120"),
  timeout: at("table, row client_tool_timeout_s", "how long each wait lasts"),
  "timeout-range": at("table, row client_tool_timeout_s", "from 5 to 900 seconds"),
  "timeout-only": at("table, row client_tool_timeout_s", 'only valid with "suspend"'),
  "4a": "the wait never outlasts the run's own deadline_at",
  "4b": "timeout_s of the suspend frame is the shorter wait",
});

const stream = section("client.stream", "3. Stream, and watch for suspend", {
  1: "the run's stream is opened as usual",
  "2a": "when the model calls a client-owned tool, the run suspends",
  "2b": "the stream carries a suspend frame with everything needed to execute the calls",
  sample: at("sample", "the frame has exactly the keys and values of the sample"),
  3: "the stream stays open",
  "4a": "there is no run.end while the run is suspended",
  "4b": "the frames of the rest of the run arrive on the same connection",
  5: "arguments is an object",
  "6a": "GET /runs/{run_id}/events?type=suspend has the same frame",
  "6b": "GET /runs/{run_id}/state has the pending suspension under suspension",
});

const resume = section("client.resume", "4. Execute, then resume with the results", {
  1: "one result per call, naming the call by its id",
  sample: at("sample 1", "the sample POST /runs/{run_id}/resume is accepted"),
  "2a": "content is a text",
  "2b": "or a list of text blocks",
  "2c": "up to 100 000 characters per result",
  "2d": "and 64 results per resume",
  3: "is_error: true says that the call ran and failed",
  "4a": "the model reads the text of a failed call with error: in front of it",
  "4b": "the way it reads any failed tool call",
  "4c": "and can try something else",
  5: "nothing is added to a text that starts with error",
  6: "the answer is 202 with the run back in queued",
  7: "the stream has a resume frame, then the model's next turn, then run.end",
  "sample-frame": at("sample 2", "the resume frame has the kind external_wait and resolved_by"),
  8: "resolved_by is human for every resume through /resume",
});

const refuse = section("client.refuse", "What resume refuses", {
  mismatch: at("table, row tool_results_mismatch", "422: the results do not name exactly the pending calls"),
  "mismatch-errors": at(
    "table, row tool_results_mismatch",
    "details.errors lists each missing_tool_result, unexpected_tool_result and duplicate_tool_result",
  ),
  "mismatch-pending": at("table, row tool_results_mismatch", "details.pending_tool_call_ids lists what is expected"),
  "shape-value": at("table, row validation_failed", '422: value is not {"tool_results": [...]}'),
  "shape-limit": at("table, row validation_failed", "422: more than 64 results, an empty list, or another limit"),
  contract: at("table, row resume_contract_mismatch", "409: the contract is not result"),
  expired: at("table, row suspension_expired", "409: the deadline has passed"),
  "not-suspended": at("table, row not_suspended", "409: the run does not wait, and this is not a repeat"),
  "1a": "a rejected resume changes nothing: the run is still suspended",
  "1b": "the right answer can be sent afterwards",
  2: "each entry of details.errors has a field, a code and a value or message",
  "3-dots": at("list 1, item 1", "validation_failed joins the path with dots: value.tool_results.0.tool_call_id"),
  "3-brackets": at("list 1, item 2", "tool_results_mismatch has brackets: value.tool_results[0].tool_call_id"),
  "3-missing": at("list 1, item 2", "a missing result names the list, with the missing id in value"),
  4: "resuming again with the same results is safe",
  5: "exactly the same results may be sent again when the 202 was lost",
  "6a": "they are checked against every client-tools wait of the run that was answered",
  "6b": "a repeat of one of those answers is a 202",
  "6c": "that does nothing",
  "7a": "also while the run waits for new tool calls",
  "7b": "also while it waits for an approval of a platform tool of the same turn",
  "7c": "also when the run has moved on to its end",
  different: at("list 2, item 1", "a different answer is refused: not_suspended when the run does not wait"),
  "different-waiting": at("list 2, item 1", "otherwise with the error of whatever the run waits for"),
  "same-id": at("list 2, item 2", "a valid answer to a call that waits now is taken as the answer to that call"),
  "same-id-later": at("list 2, item 2", "the same id can come back in a later turn as a new call"),
});

const nobody = section("client.nobody", "When nobody answers", {
  1: "without a resume before deadline_at the run ends timed_out, failure_class timeout, client_tool_deadline",
  2: "the model is not handed an invented answer",
  "3a": "the run.end frame reports it",
  "3b": "callback_url reports it",
});

const mixed = section("client.mixed", "A turn with both kinds of tools", {
  1: "the model may call a client-owned and a platform tool in one turn",
  "2a": "the run suspends before anything executes",
  "2b": "and asks about the client's calls only",
  "3a": "after the resume the platform tools run",
  "3b": "the model gets every result in the order in which it asked",
  4: "approval rules apply to platform tools",
  5: "a call of a client-owned tool is never held for an approval",
});

const replay = section("client.replay", "Replaying a run", {
  "1a": "POST /runs/{run_id}/replay makes a new run from the original's input",
  "1b": 'that runs with client_tools: "end"',
  2: "it does not wait for a client",
  3: 'a new run with "suspend" has the cycle again',
});

const conversations = section("client.conversations", "Conversations", {
  1: "results are stored in the session like any other tool result",
  "2a": "the next run with the same session_key sees the call and the answer",
  "2b": "exactly as they happened",
  3: "client_tools is sent with every run: it does not last",
});

export const CLIENT_EXECUTED_TOOLS = {
  ...intro,
  ...declare,
  ...submit,
  ...stream,
  ...resume,
  ...refuse,
  ...nobody,
  ...mixed,
  ...replay,
  ...conversations,
};
