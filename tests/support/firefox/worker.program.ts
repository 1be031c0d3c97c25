/** A site's service worker: shows the notification of a push, and lets the device kit take the ring. */
import { createDevice, createMemoryLedger } from "@leafmesh/device";
import { meshKeySchema } from "@leafmesh/protocol";
import * as z from "zod";

/** What of a service worker's global is used; TypeScript's own types of it do not go together with those of pages. */
interface WorkerGlobal {
  readonly location: { readonly search: string };
  readonly registration: { showNotification(title: string, options: object): Promise<void> };
  addEventListener(type: "push", listener: (event: PushEvent) => void): void;
  addEventListener(type: "install" | "activate", listener: (event: LifeEvent) => void): void;
  skipWaiting(): Promise<void>;
  readonly clients: { claim(): Promise<void> };
}
interface LifeEvent {
  waitUntil(work: Promise<unknown>): void;
}
interface PushEvent extends LifeEvent {
  readonly data: { text(): string } | null;
}

const worker = globalThis as unknown as WorkerGlobal;
const keys = z.array(meshKeySchema).parse(JSON.parse(new URLSearchParams(worker.location.search).get("keys") ?? "[]"));

const device = createDevice({
  id: "browser-1",
  handlers: { "clipboard.read": () => ({ text: "copied in Firefox" }) },
  approve: () => true,
  ledger: createMemoryLedger(),
  meshKeys: keys,
});

worker.addEventListener("install", (event) => event.waitUntil(worker.skipWaiting()));
worker.addEventListener("activate", (event) => event.waitUntil(worker.clients.claim()));
worker.addEventListener("push", (event) => {
  const ring = event.data?.text() ?? "";
  const shown = worker.registration.showNotification("A mesh", { body: "Allow this connection?", tag: "leafmesh" });
  event.waitUntil(Promise.all([shown, device.handleRing(ring, "push")]));
});
