/** Reads a toast as Windows does: strict, and only what toasts have. Pure. */

export interface ToastElement {
  readonly name: string;
  readonly attributes: Readonly<Record<string, string>>;
  readonly children: readonly ToastElement[];
  /** The text in it, its children's left out. */
  readonly text: string;
}

interface Open {
  readonly name: string;
  readonly attributes: Record<string, string>;
  readonly children: ToastElement[];
  text: string;
}

const ENTITIES: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", apos: "'", quot: '"' };
const TOKEN = /<(\/?)([A-Za-z]+)((?:\s+[A-Za-z-]+=(?:'[^'<]*'|"[^"<]*"))*)\s*(\/?)>|([^<]+)/gy;
const ATTRIBUTE = /([A-Za-z-]+)=(?:'([^']*)'|"([^"]*)")/g;

/** The root of a document; `undefined` for what is not well-formed. */
export function readToast(xml: string): ToastElement | undefined {
  const root: Open = { name: "", attributes: {}, children: [], text: "" };
  const stack = [root];
  let end = 0;
  try {
    for (const [all, closing, name = "", written = "", isEmpty, text] of xml.matchAll(TOKEN)) {
      end += all.length;
      const parent = stack.at(-1);
      if (!parent) return undefined;
      if (text !== undefined) parent.text += decoded(text);
      else if (closing) {
        if (stack.length === 1 || parent.name !== name || written || isEmpty) return undefined;
        stack.pop();
      } else {
        const child: Open = { name, attributes: attributesOf(written), children: [], text: "" };
        parent.children.push(child);
        if (!isEmpty) stack.push(child);
      }
    }
  } catch {
    return undefined;
  }
  const [only, ...more] = root.children;
  return end === xml.length && stack.length === 1 && more.length === 0 && root.text === "" ? only : undefined;
}

function attributesOf(written: string): Record<string, string> {
  const attributes: Record<string, string> = {};
  for (const [, name = "", single, double] of written.matchAll(ATTRIBUTE)) {
    if (Object.hasOwn(attributes, name)) throw new Error("an attribute came twice");
    attributes[name] = decoded(single ?? double ?? "");
  }
  return attributes;
}

function decoded(text: string): string {
  return text.replace(/&([^;]*);?/g, (all, name: string) => {
    const character = all.endsWith(";") && Object.hasOwn(ENTITIES, name) ? ENTITIES[name] : undefined;
    if (character === undefined) throw new Error("no such entity");
    return character;
  });
}
