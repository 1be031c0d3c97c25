import { Secret } from "@leafmesh/protocol";

const REDACTED = "[redacted]";
/** Shorter values would blank out ordinary words: `none` is a common key of local models. */
const SHORTEST_SECRET = 8;
/** The longest-known values are forgotten first. */
const MOST_SECRETS = 2_000;

/**
 * The second net: finds values that are known to be secret in text that should not hold them. The first net is the
 * {@link Secret} type, which cannot be printed.
 */
export interface Redactor {
  /** From now on the value, also in base64, hex, URL or JSON encoding, is blanked out. Ignores fewer than 8 characters. */
  add(secret: Secret | string): void;
  clean(text: string): string;
  /** Length of the longest form that is looked for: text cut anywhere may end in so many characters of a secret. */
  readonly longest: number;
}

export function createRedactor(): Redactor {
  const forms = new Map<string, readonly string[]>();
  let longest = 0;

  return {
    add(secret) {
      const value = secret instanceof Secret ? secret.reveal() : secret;
      if (value.length < SHORTEST_SECRET || forms.has(value)) return;
      const [oldest] = forms.keys();
      if (forms.size >= MOST_SECRETS && oldest !== undefined) forms.delete(oldest);
      forms.set(value, formsOf(value));
      longest = Math.max(longest, ...formsOf(value).map((form) => form.length));
    },
    clean(text) {
      let cleaned = text;
      for (const ofOne of forms.values()) {
        for (const form of ofOne) {
          if (cleaned.includes(form)) cleaned = cleaned.replaceAll(form, REDACTED);
        }
      }
      return cleaned;
    },
    get longest() {
      return longest;
    },
  };
}

function formsOf(value: string): readonly string[] {
  const bytes = Buffer.from(value, "utf8");
  const inJson = JSON.stringify(value).slice(1, -1);
  const forms = [
    value,
    inJson,
    JSON.stringify(inJson).slice(1, -1),
    encodeURIComponent(value.toWellFormed()),
    new URLSearchParams([["", value]]).toString().slice(1),
    bytes.toString("hex"),
    bytes.toString("hex").toUpperCase(),
    ...base64Cores(bytes),
  ];
  return [...new Set(forms)].sort((left, right) => right.length - left.length);
}

/**
 * What base64 makes of the bytes wherever they stand in a longer text: three forms, one for each place in a group of
 * three, without the characters at the ends that their neighbours change.
 */
function base64Cores(bytes: Buffer): string[] {
  return [0, 1, 2].flatMap((before) => {
    const whole = Buffer.concat([Buffer.alloc(before), bytes]);
    const first = Math.ceil((before * 8) / 6);
    const last = Math.floor((whole.length * 8) / 6);
    const core = whole.toString("base64").slice(first, last);
    return [core, core.replaceAll("+", "-").replaceAll("/", "_")];
  });
}
