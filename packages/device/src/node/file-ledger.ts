/** A ledger in one file, for devices that run on Node: it survives a kill at any moment. */
import { type FileHandle, mkdir, open, readFile, rename } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { type Logger, silentLogger } from "@leafmesh/protocol";
import { DEFAULT_MAX_RECORDS, type Ledger, type LedgerRecord, parseLedgerRecord, remember } from "../ledger.ts";

export interface FileLedgerOptions {
  /** How many asks are remembered. */
  readonly maxRecords?: number | undefined;
  readonly logger?: Logger | undefined;
}

export interface FileLedger extends Ledger {
  /** Waits for writes under way and closes the file. */
  close(): Promise<void>;
}

/** Lines beyond twice the records that are let grow before the file is written anew. */
const SPARE_LINES = 256;

/**
 * Opens or creates the ledger at `path`, readable by its owner alone. Each record is one line of JSON, written and synced
 * before the promise resolves; a line that a crash cut short is dropped, since nothing was done on its strength. One
 * process at a time: two would not see each other's records.
 */
export async function openFileLedger(path: string, options: FileLedgerOptions = {}): Promise<FileLedger> {
  const ledger = new LedgerFile(resolve(path), options);
  await ledger.load();
  return ledger;
}

class LedgerFile implements FileLedger {
  readonly #path: string;
  readonly #maxRecords: number;
  readonly #logger: Logger;
  readonly #records = new Map<string, LedgerRecord>();
  #file: FileHandle | undefined;
  #lines = 0;
  #closed = false;
  /** What was asked for last; each step waits for the one before it. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(path: string, { maxRecords = DEFAULT_MAX_RECORDS, logger = silentLogger }: FileLedgerOptions) {
    this.#path = path;
    this.#maxRecords = maxRecords;
    this.#logger = logger;
  }

  async load(): Promise<void> {
    await mkdir(dirname(this.#path), { recursive: true });
    const text = await readIfThere(this.#path);
    const lines = text.split("\n").filter((line) => line !== "");
    for (const [index, line] of lines.entries()) {
      const record = parseLine(line);
      if (record) remember(this.#records, record, this.#maxRecords);
      else
        this.#logger.warn("A line of the ledger is not a record and was dropped.", {
          path: this.#path,
          line: index + 1,
        });
    }
    await this.#rewrite();
  }

  claim(record: LedgerRecord): Promise<LedgerRecord | undefined> {
    return this.#step(async () => {
      const known = this.#records.get(record.id);
      if (!known) await this.#append(record);
      return known;
    });
  }

  get(id: string): Promise<LedgerRecord | undefined> {
    return this.#step(async () => this.#records.get(id));
  }

  put(record: LedgerRecord): Promise<void> {
    return this.#step(() => this.#append(record));
  }

  prune(beforeMs: number): Promise<void> {
    return this.#step(async () => {
      let removed = 0;
      for (const { id, at } of this.#records.values()) {
        if (at < beforeMs && this.#records.delete(id)) removed += 1;
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

  #step<Value>(work: () => Promise<Value>): Promise<Value> {
    const next = this.#last.then(() => {
      if (this.#closed) throw new Error(`The ledger ${this.#path} is closed`);
      return work();
    });
    this.#last = next.catch(() => {});
    return next;
  }

  async #append(record: LedgerRecord): Promise<void> {
    if (!this.#file || this.#lines > 2 * this.#records.size + SPARE_LINES) await this.#rewrite();
    const file = this.#file;
    if (!file) throw new Error(`The ledger ${this.#path} is not open`);
    try {
      await file.appendFile(`${JSON.stringify(record)}\n`);
      await file.datasync();
    } catch (cause) {
      // Part of the line may be in the file: the next write makes a clean one.
      this.#file = undefined;
      await file.close().catch(() => {});
      throw cause;
    }
    this.#lines += 1;
    remember(this.#records, record, this.#maxRecords);
  }

  /** Writes what is remembered into a new file and puts it in the old one's place, in one step. */
  async #rewrite(): Promise<void> {
    const temporary = `${this.#path}.new`;
    const fresh = await open(temporary, "w", 0o600);
    try {
      await fresh.writeFile([...this.#records.values()].map((record) => `${JSON.stringify(record)}\n`).join(""));
      await fresh.sync();
      await rename(temporary, this.#path);
      await syncFolder(dirname(this.#path));
    } catch (cause) {
      await fresh.close();
      throw cause;
    }
    await this.#file?.close();
    this.#file = fresh;
    this.#lines = this.#records.size;
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

function parseLine(line: string): LedgerRecord | undefined {
  try {
    return parseLedgerRecord(JSON.parse(line));
  } catch {
    return undefined;
  }
}
