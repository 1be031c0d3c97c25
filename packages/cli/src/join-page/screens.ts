/** What the page shows: one screen at a time. What comes from outside is set as text, never as markup. */
import type { OpenedJoinLink } from "@leafmesh/protocol";

type Child = Node | string;

/** A message and nothing to answer. */
export function say(title: string, ...paragraphs: readonly string[]): void {
  show(title, ...paragraphs.map((text) => element("p", {}, text)));
}

/** Resolves with the label that was tapped; never when `signal` comes first. */
export function ask<Label extends string>(
  title: string,
  children: readonly Child[],
  labels: readonly Label[],
): Promise<Label> {
  return new Promise((resolve) => {
    const buttons = labels.map((label, place) => {
      const button = element("button", { type: "button", class: place === 0 ? "main" : "" }, label);
      button.addEventListener("click", () => resolve(label), { once: true });
      return button;
    });
    show(title, ...children.map((child) => (typeof child === "string" ? element("p", {}, child) : child)), ...buttons);
  });
}

/** Resolves with what was tapped; never when `signal` comes first, which means that the time is over. */
export async function showRequest(
  mesh: string,
  request: OpenedJoinLink["request"],
  endsAtMs: number,
  signal: AbortSignal,
): Promise<"Allow" | "Don't allow"> {
  const left = element("p", { "aria-live": "off" }, "");
  const tick = (): void => {
    left.textContent = `Time left to decide: ${Math.max(Math.ceil((endsAtMs - Date.now()) / 1000), 0)} s`;
  };
  tick();
  const timer = setInterval(tick, 500);
  signal.addEventListener("abort", () => clearInterval(timer), { once: true });
  const tapped = await ask(`${mesh} asks this phone`, [details(request), left], ["Allow", "Don't allow"] as const);
  clearInterval(timer);
  return tapped;
}

/** The action, its inputs and the reason. Inputs stand in a list of their own, so that none can pass for the rest. */
export function details({ action, inputs, reason }: OpenedJoinLink["request"]): HTMLElement {
  const list = element("dl", {});
  for (const [name, value] of Object.entries(inputs)) {
    const text = typeof value === "string" ? value : JSON.stringify(value);
    list.append(element("dt", {}, name), element("dd", {}, text));
  }
  const why = reason ? [element("p", {}, `The reason it gives: “${reason}”`)] : [];
  return element("div", {}, element("p", {}, element("strong", {}, action)), list, ...why);
}

export function element<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Readonly<Record<string, string>>,
  ...children: readonly Child[]
): HTMLElementTagNameMap[Tag] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== "") made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function show(title: string, ...children: readonly Child[]): void {
  document.title = title;
  document.querySelector("main")?.replaceChildren(element("h1", { "aria-live": "polite" }, title), ...children);
}
