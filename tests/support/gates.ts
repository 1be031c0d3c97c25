/** Lets a test hold back what it names, until it says so. */
export interface Gates {
  /** Resolves at once unless the name is held. */
  pass(name: string): Promise<void>;
  hold(name: string): void;
  release(name: string): void;
  /** Resolves when somebody waits at the name; `count` of them since the start. */
  reached(name: string, count?: number): Promise<void>;
}

interface Gate {
  open: PromiseWithResolvers<void>;
  arrivals: number;
}

export function createGates(): Gates {
  const gates = new Map<string, Gate>();
  const watching = new Set<() => void>();
  const gate = (name: string): Gate => {
    const known = gates.get(name) ?? { open: Promise.withResolvers<void>(), arrivals: 0 };
    gates.set(name, known);
    return known;
  };
  return {
    async pass(name) {
      const known = gates.get(name);
      if (!known) return;
      known.arrivals++;
      for (const look of [...watching]) look();
      await known.open.promise;
    },
    hold: (name) => void gate(name),
    release: (name) => gate(name).open.resolve(),
    async reached(name, count = 1) {
      while (gate(name).arrivals < count) {
        await new Promise<void>((resolve) => {
          const look = (): void => {
            watching.delete(look);
            resolve();
          };
          watching.add(look);
        });
      }
    },
  };
}
