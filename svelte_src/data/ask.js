// Questions to the server that has the network.

const CLIENT = Math.random().toString(36).slice(2, 12);
let number = 0;

/** A question that the server refused; `message` is for the reader. */
export class Refusal extends Error {}

/**
 * A function that asks, of which only the newest question is answered.
 *
 * @param {string} name of the part of the panel that asks
 * @returns {(kind: string, question: object) => Promise<any>} the answer, or null where a newer question has replaced it
 */
export function createQuestions(name) {
  let current = null;
  return async (kind, question) => {
    current?.abort();
    const own = (current = new globalThis.AbortController());
    number += 1;
    try {
      const response = await globalThis.fetch(`live/${kind}?client=${CLIENT}-${name}&number=${number}`, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(question),
        signal: own.signal,
      });
      if (own !== current || response.status === 409) return null;
      if (!response.ok) throw new Refusal((await response.text()).trim());
      return await response.json();
    } catch (error) {
      if (own !== current || error.name === "AbortError") return null;
      throw error instanceof Refusal ? error : new Refusal("The server does not answer; is rl-clarity still running?");
    }
  };
}
