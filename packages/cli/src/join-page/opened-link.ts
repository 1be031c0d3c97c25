/** What the link opened: asked for once, and kept over a reload until the person has decided. */
import { errorBodySchema, type OpenedJoinLink, openedLinkSchema } from "@leafmesh/protocol";
import * as z from "zod";

export type LinkTrouble = "link_used" | "link_over" | "no_such_link" | "unreachable";

/** `endsAtMs`: on this device's own clock, from how long the mesh said that there is. */
export interface OpenedHere {
  readonly link: OpenedJoinLink;
  readonly endsAtMs: number;
}

export type OpeningLink =
  | { readonly ok: true; readonly here: OpenedHere }
  | { readonly ok: false; readonly why: LinkTrouble };

const OPEN_WITHIN_MS = 15_000;

const keptSchema = z.object({ link: openedLinkSchema, endsAtMs: z.number() });

/** Of this page's own address, and in this tab alone. */
const KEY = `leafmesh ${location.pathname}`;

export async function openLink(): Promise<OpeningLink> {
  let answer: unknown;
  let status: number;
  try {
    const response = await fetch(location.pathname, {
      method: "POST",
      redirect: "error",
      signal: AbortSignal.timeout(OPEN_WITHIN_MS),
    });
    status = response.status;
    answer = await response.json();
  } catch {
    return { ok: false, why: "unreachable" };
  }
  const opened = openedLinkSchema.safeParse(answer);
  if (status === 200 && opened.success) {
    const here = { link: opened.data, endsAtMs: Date.now() + opened.data.expires_in_ms };
    keep(here);
    return { ok: true, here };
  }
  const code = errorBodySchema.safeParse(answer).data?.error.code;
  return {
    ok: false,
    why: code === "link_used" || code === "link_over" || code === "no_such_link" ? code : "unreachable",
  };
}

export function keptOpened(): OpenedHere | undefined {
  try {
    return keptSchema.safeParse(JSON.parse(sessionStorage.getItem(KEY) ?? "null")).data;
  } catch {
    return undefined;
  }
}

export function forgetOpened(): void {
  try {
    sessionStorage.removeItem(KEY);
  } catch {
    // A browser that keeps nothing has nothing to forget.
  }
}

function keep(opened: OpenedHere): void {
  try {
    sessionStorage.setItem(KEY, JSON.stringify(opened));
  } catch {
    // Without it a reload ends the request, which is what the page says then.
  }
}
