/** A ledger in one file, for programs that run on Node: it survives a kill at any moment. */
import { type FileHandle, mkdir, open, readFile, rename } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { type Logger, silentLogger } from "@leafmesh/protocol";
import { DEFAULT_MAX_ENTRIES, type EntryLedger, type LedgerEntry, type ParseEntry, remember } from "../ledger.ts";

export interface FileEntriesOptions<Entry extends LedgerEntry> {
  readonly parse: ParseEntry<Entry>;
  /** How many entries are remembered. */
  readonly maxEntries?: number | undefined;
  readonly logger?: Logger | undefined;
}

export interface FileEntries<Entry extends LedgerEntry> extends EntryLedger<Entry> {
  /** Waits for writes under way and closes the file. */
  close(): Promise<void>;
}

/** Lines beyond twice the entries that are let grow before the file is written anew. */
const SPARE_LINES = 256;

/**
 * Opens or creates the ledger at `path`, readable by its owner alone. Each entry is one line of JSON, written and synced
 * before the promise resolves; a line that a crash cut short is dropped, since nothing was done on its strength. One
 * process at a time: two would not see each other's entries.
 */
export async function openFileEntries<Entry extends LedgerEntry>(
  path: string,
  options: FileEntriesOptions<Entry>,
): Promise<FileEntries<Entry>> {
  const ledger = new EntryFile(resolve(path), options);
  await ledger.load();
  return ledger;
}

class EntryFile<Entry extends LedgerEntry> implements FileEntries<Entry> {
  readonly #path: string;
  readonly #parse: ParseEntry<Entry>;
  readonly #maxEntries: number;
  readonly #logger: Logger;
  readonly #entries = new Map<string, Entry>();
  #file: FileHandle | undefined;
  #lines = 0;
  #closed = false;
  /** What was asked for last; each step waits for the one before it. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(
    path: string,
    { parse, maxEntries = DEFAULT_MAX_ENTRIES, logger = silentLogger }: FileEntriesOptions<Entry>,
  ) {
    this.#path = path;
    this.#parse = parse;
    this.#maxEntries = maxEntries;
    this.#logger = logger;
  }

  async load(): Promise<void> {
    await mkdir(dirname(this.#path), { recursive: true });
    const text = await readIfThere(this.#path);
    const lines = text.split("\n").filter((line) => line !== "");
    for (const [index, line] of lines.entries()) {
      const entry = this.#parseLine(line);
      if (entry) remember(this.#entries, entry, this.#maxEntries);
      else
        this.#logger.warn("A line of the ledger is not an entry and was dropped.", {
          path: this.#path,
          line: index + 1,
        });
    }
    await this.#rewrite();
  }

  claim(entry: Entry): Promise<Entry | undefined> {
    return this.#step(async () => {
      const known = this.#entries.get(entry.id);
      if (!known) await this.#append(entry);
      return known;
    });
  }

  get(id: string): Promise<Entry | undefined> {
    return this.#step(async () => this.#entries.get(id));
  }

  put(entry: Entry): Promise<void> {
    return this.#step(() => this.#append(entry));
  }

  prune(beforeMs: number): Promise<void> {
    return this.#step(async () => {
      let removed = 0;
      for (const { id, at } of this.#entries.values()) {
        if (at < beforeMs && this.#entries.delete(id)) removed += 1;
      }
      if (removed > 0) await this.#rewrite();
    });
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    await this.#step(async () => {
      this.#closed = true;
      await this.#file?.close();
    });
  }

  #parseLine(line: string): Entry | undefined {
    try {
      return this.#parse(JSON.parse(line));
    } catch {
      return undefined;
    }
  }

  #step<Value>(work: () => Promise<Value>): Promise<Value> {
    const next = this.#last.then(() => {
      if (this.#closed) throw new Error(`The ledger ${this.#path} is closed`);
      return work();
    });
    this.#last = next.catch(() => {});
    return next;
  }

  async #append(entry: Entry): Promise<void> {
    if (!this.#file || this.#lines > 2 * this.#entries.size + SPARE_LINES) await this.#rewrite();
    const file = this.#file;
    if (!file) throw new Error(`The ledger ${this.#path} is not open`);
    try {
      await file.appendFile(`${JSON.stringify(entry)}\n`);
      await file.datasync();
    } catch (cause) {
      // Part of the line may be in the file: the next write makes a clean one.
      this.#file = undefined;
      await file.close().catch(() => {});
      throw cause;
    }
    this.#lines += 1;
    remember(this.#entries, entry, this.#maxEntries);
  }

  /** Writes what is remembered into a new file and puts it in the old one's place, in one step. */
  async #rewrite(): Promise<void> {
    const temporary = `${this.#path}.new`;
    const fresh = await open(temporary, "w", 0o600);
    try {
      await fresh.writeFile([...this.#entries.values()].map((entry) => `${JSON.stringify(entry)}\n`).join(""));
      await fresh.sync();
      await rename(temporary, this.#path);
      await syncFolder(dirname(this.#path));
    } catch (cause) {
      await fresh.close();
      throw cause;
    }
    await this.#file?.close();
    this.#file = fresh;
    this.#lines = this.#entries.size;
  }
}

/** A new name in a folder is durable once the folder is synced. Windows cannot, and does not need to. */
async function syncFolder(path: string): Promise<void> {
  if (process.platform === "win32") return;
  const folder = await open(path, "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

async function readIfThere(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (cause) {
    if (cause instanceof Error && "code" in cause && cause.code === "ENOENT") return "";
    throw cause;
  }
}
