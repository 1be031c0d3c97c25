/** The person does what was asked, and says what came of it. Nothing is answered that the person did not say. */
import { decline, fail, type Task, UploadError } from "@leafmesh/device";
import { ask, details, element, say } from "./screens.ts";

const DONE = "It is done";
const NOT_DONE = "I could not do it";
const DECLINE = "I decline";
const PHOTO_TYPES = "image/jpeg,image/png,image/webp";
const MAX_TEXT_CHARACTERS = 4000;

/** The answer to the task; rejects when it is not wanted any more. */
export async function actAsPerson(mesh: string, task: Task): Promise<unknown> {
  const text = element("textarea", { id: "answer", rows: "3", maxlength: String(MAX_TEXT_CHARACTERS) });
  const photo = element("input", { id: "photo", type: "file", accept: PHOTO_TYPES });
  const trouble = element("p", { role: "alert" });
  const form = [
    details(task),
    element("label", { for: "answer" }, "Your answer, if there is something to say"),
    text,
    element("label", { for: "photo" }, "A photo, if one was asked for"),
    photo,
    trouble,
  ];
  for (;;) {
    const tapped = await whileWanted(task, ask(`${mesh} waits for you`, form, [DONE, NOT_DONE, DECLINE] as const));
    const said = text.value.trim();
    if (tapped === DECLINE) return decline(said || "The person declined.");
    if (tapped === NOT_DONE) return fail("person_could_not", said || "The person could not do it.");
    const [file] = photo.files ?? [];
    try {
      const brought = file && (await bring(task, file));
      say("Sending your answer…", "Keep this page open.");
      return { answered_by: "person", ...(said ? { text: said } : {}), ...(brought ? { photo: brought } : {}) };
    } catch (error) {
      if (!(error instanceof UploadError) || task.signal.aborted) throw error;
      trouble.textContent = `The photo could not be sent: ${error.message}.`;
      photo.value = "";
    }
  }
}

async function bring(task: Task, file: File): Promise<unknown> {
  say("Sending the photo…", "Keep this page open.");
  const bytes = new Uint8Array(await file.arrayBuffer());
  return task.upload(`photo.${file.type.split("/")[1] ?? "jpeg"}`, bytes, file.type);
}

async function whileWanted<Value>(task: Task, work: Promise<Value>): Promise<Value> {
  const over = new Promise<never>((_, reject) => {
    if (task.signal.aborted) reject(task.signal.reason);
    task.signal.addEventListener("abort", () => reject(task.signal.reason), { once: true });
  });
  return Promise.race([work, over]);
}
