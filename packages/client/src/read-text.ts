/** The body as text. Rejects with a `RangeError`, and reads no further, when it has more than `maxCharacters`. */
export async function readText(response: Response, maxCharacters: number): Promise<string> {
  const reader = response.body?.getReader();
  if (!reader) return "";
  const decoder = new TextDecoder();
  let text = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      text += decoder.decode(value, { stream: !done });
      if (text.length > maxCharacters) throw new RangeError(`the body has more than ${maxCharacters} characters`);
      if (done) return text;
    }
  } finally {
    void reader.cancel().catch(() => {});
  }
}
