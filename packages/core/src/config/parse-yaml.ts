/**
 * From text to a YAML document, within bounds: tokens and nesting are counted before the parser recurses, so a hostile
 * file of any allowed size is answered as fast as an honest one. Duplicate keys are left to `locate.ts`, because the
 * parser's own search for them is quadratic.
 */
import { Composer, type Document, Lexer, type ParsedNode, Parser } from "yaml";
import type { Range } from "./diagnostic.ts";
import type { Problems } from "./problems.ts";
import type { SourceText } from "./source-text.ts";
import { reportSyntaxErrors } from "./syntax-errors.ts";
import { findUnquotedReference, maskRanges, reportUnquotedReference } from "./unquoted-references.ts";

/** Collections within collections. */
const MAX_DEPTH = 32;
/** Files of agents with prompts have one for every five to ten bytes. */
const TOKENS_PER_BYTE = 0.2;
/** Looks for unquoted references again, because one of them can hide the next. */
const MAX_REPAIRS = 3;

export type YamlDocument = Document.Parsed<ParsedNode>;

export interface ParsedYaml {
  /** `undefined` when there is nothing that could be looked at further. */
  readonly document: YamlDocument | undefined;
  /** Whether the document is what the operator meant; false after a syntax error. */
  readonly trustworthy: boolean;
  /** Whether unquoted references were replaced by text of the same length; what is found in them says nothing. */
  readonly isRepaired: boolean;
}

type CstToken = ReturnType<Parser["next"]> extends Generator<infer Token> ? Token : never;

interface Tokens {
  readonly tokens: readonly CstToken[];
  readonly unquoted: readonly Range[];
  /** Where a quote was opened and never closed. */
  readonly openQuoteAt: number | undefined;
}

export function parseYaml(source: SourceText, maxBytes: number, problems: Problems): ParsedYaml {
  const repaired: Range[] = [];
  let read = readTokens(source.text, maxBytes, problems);
  for (let repairs = 0; read && read.unquoted.length > 0 && repairs < MAX_REPAIRS; repairs++) {
    for (const range of read.unquoted) reportUnquotedReference(source, range, problems);
    repaired.push(...read.unquoted);
    read = readTokens(maskRanges(source.text, repaired), maxBytes, problems);
  }
  const isRepaired = repaired.length > 0;
  if (!read) return { document: undefined, trustworthy: false, isRepaired };
  const refused = refuseStream(read.tokens, problems);
  const [document] = compose(read.tokens);
  if (!document) {
    if (!refused) problems.error(emptyFile);
    return { document: undefined, trustworthy: false, isRepaired };
  }
  const broken = reportSyntaxErrors(document, source, read.openQuoteAt, problems);
  return { document, trustworthy: !refused && !broken, isRepaired };
}

export const emptyFile = {
  code: "empty_file",
  range: [0, 0],
  path: "",
  message: "the file is empty",
  hint: "write at least one agent under agents:, or start with leafmesh new",
} as const;

/** Tokens that a file of the allowed size may have. */
export function maxTokensOf(maxBytes: number): number {
  return Math.ceil(maxBytes * TOKENS_PER_BYTE);
}

/** Runs lexer and parser side by side and stops at the first bound. */
function readTokens(text: string, maxBytes: number, problems: Problems): Tokens | undefined {
  const parser = new Parser();
  const tokens: CstToken[] = [];
  const unquoted: Range[] = [];
  const maxTokens = maxTokensOf(maxBytes);
  let openQuoteAt: number | undefined;
  let count = 0;
  let previous = "";
  for (const lexeme of new Lexer().lex(text)) {
    const offset = parser.offset;
    if (++count > maxTokens) {
      problems.error(tooComplex(offset, `the file has more than ${maxTokens} keys, values and marks`, TOKENS_HINT));
      return undefined;
    }
    if (lexeme === "{" && previous.endsWith("$")) unquoted.push(findUnquotedReference(text, offset - 1));
    if (isOpenQuote(lexeme)) openQuoteAt ??= offset;
    previous = lexeme;
    for (const token of parser.next(lexeme)) tokens.push(token);
    if (parser.stack.length > MAX_DEPTH + 2) {
      problems.error(tooComplex(offset, `the file is nested more than ${MAX_DEPTH} levels deep`, DEPTH_HINT));
      return undefined;
    }
  }
  for (const token of parser.end()) tokens.push(token);
  return { tokens, unquoted, openQuoteAt };
}

function isOpenQuote(lexeme: string): boolean {
  const first = lexeme[0];
  return (first === '"' || first === "'") && (lexeme.length === 1 || !lexeme.endsWith(first));
}

const TOKENS_HINT = "split the mesh, or raise the limit with --max-config-size";
const DEPTH_HINT = "check that the right file was named";

function tooComplex(offset: number, message: string, hint: string) {
  return { code: "file_too_complex", range: [offset, offset + 1], path: "", message, hint } as const;
}

/** What YAML allows around and between documents and mesh.yaml does not. */
function refuseStream(tokens: readonly CstToken[], problems: Problems): boolean {
  const directive = tokens.find((token) => token.type === "directive");
  if (directive) {
    problems.error({
      code: "unsupported_yaml",
      range: [directive.offset, directive.offset + directive.source.length],
      path: "",
      message: "lines that begin with % are not used in a mesh file",
      hint: "remove this line",
    });
  }
  const second = tokens.filter((token) => token.type === "document")[1];
  if (second) {
    problems.error({
      code: "unsupported_yaml",
      range: [second.offset, second.offset + 3],
      path: "",
      message: "a second document begins here",
      hint: "a mesh file holds one document; remove the --- and what does not belong",
    });
  }
  return directive !== undefined || second !== undefined;
}

function compose(tokens: readonly CstToken[]): readonly YamlDocument[] {
  const composer = new Composer({
    version: "1.2",
    schema: "core",
    resolveKnownTags: false,
    uniqueKeys: false,
    merge: false,
    strict: true,
  });
  // One error object per token of a hostile file: without stack traces they cost nothing.
  const stackTraceLimit = Error.stackTraceLimit;
  Error.stackTraceLimit = 0;
  try {
    return [...composer.compose(tokens)];
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}
