/**
 * The program of the page behind the link of a text message: a device of the mesh for one request, whose hands are the
 * person's. It opens the link after a tap, shows what is asked, joins when it is allowed, and says what the person says.
 */
import { createDevice, createMemoryLedger, type Ledger, openBrowserLedger } from "@leafmesh/device";
import { ringSchema } from "@leafmesh/protocol";
import { actAsPerson } from "./act.ts";
import { endingOf, LINK_WORDS } from "./endings.ts";
import { forgetOpened, keptOpened, type OpenedHere, openLink } from "./opened-link.ts";
import { ask, say, showRequest } from "./screens.ts";

async function start(): Promise<void> {
  const main = document.querySelector("main");
  const kept = keptOpened();
  if (kept) return serve(kept);
  if (main?.dataset.state !== "open") return;
  const text = "Nothing happens until you allow it. The link works once, so show the request where you can answer it.";
  await ask(`${main.dataset.mesh ?? "Somebody"} asks something of this phone`, [text], ["Show the request"]);
  say("One moment…");
  const opened = await openLink();
  if (opened.ok) return serve(opened.here);
  say(...LINK_WORDS[opened.why]);
}

/** To the end of the request. */
async function serve({ link, endsAtMs }: OpenedHere): Promise<void> {
  const { request } = link;
  const { device: id, mesh = "Somebody" } = ringSchema.parse(JSON.parse(link.ring));
  const device = createDevice({
    id,
    meshKeys: link.mesh_keys,
    ledger: await openLedger(id),
    // Only what was shown is done: a task of another name is refused by the kit.
    handlers: { [request.action]: (task) => actAsPerson(mesh, task) },
    async approve({ signal }) {
      // The ring was under way for a while: its time ends sooner than it would if it had come just now.
      const timer = setTimeout(() => void device.close(), endsAtMs - Date.now());
      const answer = await showRequest(mesh, request, endsAtMs, signal);
      clearTimeout(timer);
      // From here on the room's token may be used up, and a reload could not go on with it.
      forgetOpened();
      say(answer === "Allow" ? "Connecting…" : "One moment…", "Keep this page open.");
      return answer === "Allow";
    },
  });
  const disposition = await device.handleRing(link.ring, "link");
  forgetOpened();
  say(...endingOf(disposition));
}

/** Private windows of some browsers keep no database: then this page alone remembers. */
async function openLedger(id: string): Promise<Ledger> {
  return openBrowserLedger({ name: `leafmesh-asks ${id}` }).catch(() => createMemoryLedger());
}

start().catch((error: unknown) => {
  console.error(error);
  say("This page does not work here", "Something went wrong in this browser. Try the link in another one.");
});
