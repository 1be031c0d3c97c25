/** `local/meta/llama` is the model `meta/llama` of the entry `local`; a name without a slash is OpenAI's. */
export function splitModel(model: string): { readonly endpoint: string; readonly model: string } {
  const slash = model.indexOf("/");
  return slash < 0 ? { endpoint: "openai", model } : { endpoint: model.slice(0, slash), model: model.slice(slash + 1) };
}
