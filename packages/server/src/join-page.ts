/**
 * The page behind the link of a text message. What it shows before a tap says nothing of the request: carriers and
 * messengers fetch links to preview them.
 */
import { createHash } from "node:crypto";
import type { LinkState } from "./dependencies.ts";

/** Where the page finds its program, relative to itself: `server.public_url` may have a path. */
export const PAGE_SCRIPT = "assets/page.js";

const STYLE = `
:root { color-scheme: light dark; font: 100%/1.5 system-ui, sans-serif; }
body { margin: 0; }
main { box-sizing: border-box; max-width: 34rem; margin: 0 auto; padding: 1.5rem; }
h1 { font-size: 1.4rem; line-height: 1.25; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: auto 1fr; gap: .4rem 1rem; margin: 1rem 0; }
dt { opacity: .7; }
dd { margin: 0; overflow-wrap: anywhere; white-space: pre-wrap; }
button, textarea, input { font: inherit; }
button { display: block; width: 100%; min-height: 3rem; margin: .6rem 0; border-radius: .6rem; border: 1px solid; }
button.main { background: #1a5fd0; border-color: #1a5fd0; color: #fff; }
textarea { box-sizing: border-box; width: 100%; }
label { display: block; margin: .8rem 0 .2rem; }
[role="alert"] { color: #b3261e; }
`;

interface Words {
  readonly status: number;
  readonly title: string;
  readonly text: string;
}

const WORDS: Readonly<Record<LinkState, Words>> = {
  open: {
    status: 200,
    title: "A request for this phone",
    text: "Loading…",
  },
  used: {
    status: 410,
    title: "This link was used already",
    text: "A link works once. If you did not open it yourself, tell whoever sent it.",
  },
  over: {
    status: 410,
    title: "The time of this request is over",
    text: "Nothing was done. If it still matters, ask for a new link.",
  },
  unknown: {
    status: 404,
    title: "This link leads nowhere",
    text: "It was used or ended a while ago, or not all of the address was copied.",
  },
};

export interface JoinPage {
  readonly status: number;
  readonly html: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** The page for a link in this state. A used one has the program, too: a reload must not take a person's request away. */
export function joinPage(state: LinkState, meshName: string): JoinPage {
  const { status, title, text } = WORDS[state];
  const isLive = state === "open" || state === "used";
  const script = isLive ? `<script type="module" src="${PAGE_SCRIPT}"></script>` : "";
  const noScript = state === "open" ? "<noscript>This page needs JavaScript.</noscript>" : "";
  const html = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>${title}</title>
<style>${STYLE}</style>
</head>
<body>
<main data-state="${state}" data-mesh="${escaped(meshName)}">
<h1>${title}</h1>
<p>${text}</p>
${noScript}
</main>
${script}
</body>
</html>
`;
  return { status, html, headers: HEADERS };
}

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** Rooms and uploads may be elsewhere: over TLS, or on this very machine. */
const CONNECT = "'self' https: wss: http://127.0.0.1:* ws://127.0.0.1:* http://localhost:* ws://localhost:*";

const HEADERS = {
  "content-type": "text/html; charset=utf-8",
  "cache-control": "no-store",
  "content-security-policy": [
    "default-src 'none'",
    "script-src 'self'",
    `style-src 'sha256-${createHash("sha256").update(STYLE).digest("base64")}'`,
    `connect-src ${CONNECT}`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join("; "),
};
