// biome-ignore-all lint/suspicious/noTemplateCurlyInString: what such strings hold is this file's subject
/** The grammar of `${NAME}`, `${NAME:-default}`, `${file:path}` and `$${`. One pass: what a reference gives is text. */

export type TemplatePiece =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "variable"; readonly name: string; readonly fallback: string | undefined; readonly at: number }
  | { readonly type: "file"; readonly path: string; readonly at: number }
  /** `hint` may repeat names, never a default: that may be a secret. */
  | { readonly type: "bad"; readonly message: string; readonly hint: string; readonly at: number };

export type ReferencePiece = Exclude<TemplatePiece, { type: "text" }>;

const REFERENCE = /(\$?)\$\{/g;

export function hasReference(text: string): boolean {
  return text.includes("${");
}

/** `at` of a piece is the place of its `$` in `text`. */
export function parseTemplate(text: string): readonly TemplatePiece[] {
  const pieces: TemplatePiece[] = [];
  let done = 0;
  const takeText = (upTo: number): void => {
    if (upTo > done) pieces.push({ type: "text", text: text.slice(done, upTo) });
  };
  const opening = new RegExp(REFERENCE);
  for (let found = opening.exec(text); found; found = opening.exec(text)) {
    takeText(found.index);
    if (found[1]) {
      pieces.push({ type: "text", text: "${" });
      done = opening.lastIndex;
      continue;
    }
    const close = text.indexOf("}", opening.lastIndex);
    const inside = close < 0 ? undefined : text.slice(opening.lastIndex, close);
    pieces.push(readReference(inside, found.index));
    if (inside === undefined) return pieces;
    done = close + 1;
    opening.lastIndex = done;
  }
  takeText(text.length);
  return pieces;
}

const ESCAPE_HINT = "for a literal ${ write $${";

function readReference(inside: string | undefined, at: number): ReferencePiece {
  if (inside === undefined) {
    return { type: "bad", message: "the closing } of this ${...} is missing", hint: ESCAPE_HINT, at };
  }
  if (inside.startsWith("file:")) {
    const path = inside.slice("file:".length).trim();
    if (path !== "") return { type: "file", path, at };
    return { type: "bad", message: "the path of this file is missing", hint: "write ${file:./secrets/key.json}", at };
  }
  const parts = /^([A-Za-z_][A-Za-z0-9_]*)(?:(:-)([\s\S]*))?$/.exec(inside);
  const name = parts?.[1];
  if (name === undefined) return explainBadReference(inside, at);
  const fallback = parts?.[3];
  if (fallback?.includes("${")) {
    return {
      type: "bad",
      message: `the default of ${name} holds another reference`,
      hint: "references cannot be nested; write the default out",
      at,
    };
  }
  return { type: "variable", name, fallback, at };
}

function explainBadReference(inside: string, at: number): ReferencePiece {
  const bad = (message: string, hint: string): ReferencePiece => ({ type: "bad", message, hint, at });
  const name = /^\s*([A-Za-z_][A-Za-z0-9_]{0,63})/.exec(inside)?.[1];
  if (name === undefined)
    return bad("this ${...} names no variable", `write \${NAME} or \${file:path}; ${ESCAPE_HINT}`);
  if (/^env:[A-Za-z_]/.test(inside)) {
    const variable = /^env:([A-Za-z0-9_]{1,64})/.exec(inside)?.[1];
    return bad("a variable is named without env:", `write \${${variable}}`);
  }
  const after = inside.trimStart().slice(name.length);
  if (/^:?[-=?+]/.test(after) || after.startsWith(":")) {
    return bad(`the default of ${name} is not set off by :-`, `write \${${name}:-...}`);
  }
  return bad(`this \${...} is not the name of a variable`, `write \${${name}} or \${${name}:-default}; ${ESCAPE_HINT}`);
}
