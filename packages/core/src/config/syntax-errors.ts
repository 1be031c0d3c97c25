/** Says in an operator's words what the YAML parser found. The parser's own messages quote the file and are not used. */
import type { YAMLError } from "yaml";
import type { DiagnosticCode, Range } from "./diagnostic.ts";
import type { YamlDocument } from "./parse-yaml.ts";
import type { Problems } from "./problems.ts";
import type { SourceText } from "./source-text.ts";

interface Explanation {
  readonly message: string;
  readonly hint?: string;
  readonly code?: DiagnosticCode;
  readonly range?: Range;
}

/** Reports at most one error a line, because those that follow on it come from the first. True if any was found. */
export function reportSyntaxErrors(
  document: YamlDocument,
  source: SourceText,
  openQuoteAt: number | undefined,
  problems: Problems,
): boolean {
  const unknownTags = document.warnings.filter((warning) => warning.code === "TAG_RESOLVE_FAILED");
  const seenLines = new Set<number>();
  const seenOffsets = new Set<number>();
  for (const error of [...document.errors, ...unknownTags]) {
    if (problems.isFull()) break;
    if (seenOffsets.has(error.pos[0])) continue;
    seenOffsets.add(error.pos[0]);
    const explanation = explain(error, source, openQuoteAt);
    const range = explanation.range ?? error.pos;
    const { line } = source.placeOf(range[0]);
    if (seenLines.has(line)) continue;
    seenLines.add(line);
    problems.error({
      code: explanation.code ?? "bad_syntax",
      range,
      path: "",
      message: explanation.message,
      hint: explanation.hint,
    });
  }
  return document.errors.length > 0;
}

const notAPair: Explanation = {
  message: 'this is not of the form "key: value"',
  hint: "write a colon and a space after the key, or put a text of several lines after |",
};

const quoteIt = "put the value in quotes";

function explain(error: YAMLError, source: SourceText, openQuoteAt: number | undefined): Explanation {
  const said = error.message;
  switch (error.code) {
    case "TAB_AS_INDENT":
      return { message: "a tab is used as indentation", hint: "indent with spaces" };
    case "BAD_INDENT":
      return explainIndentation(error, source);
    case "MISSING_CHAR":
      if (said.startsWith("Missing closing")) {
        const at = openQuoteAt ?? error.pos[0];
        return { message: "this quote is never closed", hint: "close it at the end of the value", range: [at, at + 1] };
      }
      if (said.startsWith("Missing , ")) return { message: "a comma is missing before this" };
      if (said.startsWith("Missing space")) return { message: "a space is missing after the colon" };
      return explainUnclosed(said) ?? notAPair;
    case "BLOCK_AS_IMPLICIT_KEY":
      return explainNestedMapping(error, source);
    case "MULTILINE_IMPLICIT_KEY":
      return notAPair;
    case "KEY_OVER_1024_CHARS":
      return { message: "this key is longer than 1024 characters" };
    case "BAD_SCALAR_START":
      return { message: `a value must not begin with ${source.text[error.pos[0]] ?? "this"}`, hint: quoteIt };
    case "UNEXPECTED_TOKEN":
      return explainUnexpected(error, source);
    case "BLOCK_IN_FLOW":
      return { message: "a comma is missing, or a key stands at a place inside { } or [ ] that takes none" };
    case "BAD_DQ_ESCAPE":
      return {
        message: "this escape sequence is not known",
        hint: "in double quotes a backslash begins an escape: double it, or use single quotes",
      };
    case "TAG_RESOLVE_FAILED":
      return { code: "unsupported_yaml", message: "tags such as !this are not allowed", hint: "remove the tag" };
    case "MULTIPLE_ANCHORS":
    case "MULTIPLE_TAGS":
      return { message: "a value takes one anchor and one tag at most" };
    case "ALIAS_PROPS":
      return { message: "an alias takes no anchor and no tag" };
    case "BAD_ALIAS":
      return { message: "the name of an anchor or alias is missing" };
    default:
      return { message: "this is not valid YAML here" };
  }
}

function explainIndentation(error: YAMLError, source: SourceText): Explanation {
  const unclosed = explainUnclosed(error.message);
  if (unclosed) return unclosed;
  const range = nextWord(source.text, error.pos[0]);
  if (error.message.startsWith("Block scalar")) {
    return { message: "this line is indented less than the first line of its text", range };
  }
  return {
    message: "this line does not line up with the ones before it",
    hint: "keys of one mapping and items of one list begin at the same column",
    range,
  };
}

function explainUnclosed(said: string): Explanation | undefined {
  const bracket = /end with a ([\]}])/.exec(said)?.[1];
  if (!bracket) return undefined;
  return {
    message: `the closing ${bracket} is missing`,
    hint: `close it before this, deeper than the key it belongs to`,
  };
}

/** Two causes: a second `: ` in a plain value, or a line that is indented deeper although its key has a value. */
function explainNestedMapping(error: YAMLError, source: SourceText): Explanation {
  const { line } = source.placeOf(error.pos[0]);
  const rest = source.text.slice(error.pos[0], source.startOf(line + 1));
  if (/:(\s|$)/.test(rest.trimEnd())) {
    return { message: 'a value must not hold ": " outside quotes', hint: quoteIt };
  }
  return {
    message: "this line is indented deeper, but the key above it already has a value",
    hint: "begin it at the same column as that key",
    range: nextWord(source.text, source.startOf(line + 1)),
  };
}

function explainUnexpected(error: YAMLError, source: SourceText): Explanation {
  const [start] = error.pos;
  const character = source.text[start] ?? "";
  if (/["']\s*$/.test(source.text.slice(Math.max(0, start - 20), start))) {
    return {
      message: "text follows after the closing quote",
      hint: "double a quote that belongs to the text, or put a comma between two values of { } or [ ]",
    };
  }
  if (character === "-") {
    return { message: "a list item cannot begin here", hint: "begin the list on a line of its own under its key" };
  }
  if (/[[\]{},:?&*!|>]/.test(character)) return { message: `an unexpected ${character}`, hint: quoteIt };
  return { message: "unexpected text", hint: "check the indentation and the quotes of the lines above" };
}

/** The first word at or after an offset. */
function nextWord(text: string, offset: number): Range {
  const pattern = /\S+/g;
  pattern.lastIndex = offset;
  const word = pattern.exec(text);
  return word ? [word.index, word.index + word[0].length] : [offset, offset + 1];
}
