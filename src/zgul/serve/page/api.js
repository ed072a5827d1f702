/** The calls of the service. Addresses are relative, so that the page also works below a path of another server. */

import { t } from "./texts.js";

/** An answer of the service that is an error; `message` is the service's own, without the field for programs. */
class ApiError extends Error {}

let key = "";

/** Use this API key from now on; it is kept in memory only. */
export const setKey = (value) => (key = value.trim());

/**
 * @param {string} path
 * @param {RequestInit} options
 * @returns {Promise<Response>}
 */
async function request(path, options = {}) {
  const headers = new Headers(options.headers);
  if (key) headers.set("Authorization", `Bearer ${key}`);
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(t("error.network"));
  }
  if (!response.ok) {
    const answer = await response.json().catch(() => null);
    const odd = { message: t("error.odd", { status: response.status }) };
    const { message, field } = answer?.error?.message ? answer.error : odd;
    throw new ApiError(field ? message.replace(`${field}: `, "") : message);
  }
  return response;
}

const get = async (path, signal) => (await request(path, { signal })).json();

const post = (path, body, signal) =>
  request(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });

export const getConfig = () => get("v1/config");

export const getExamples = async () => (await get("v1/examples")).examples;

/** Languages whose name or code is like `query`, best first; without one, the paper's. */
export async function searchLanguages(query, signal) {
  const search = new URLSearchParams(query ? { q: query, limit: "20" } : {});
  return (await get(`v1/languages?${search}`, signal)).languages;
}

export const getLanguage = (code) => get(`v1/languages/${encodeURIComponent(code)}`);

/** Tag texts; the answer has one entry for each. */
export const tagTexts = async (body, signal) => (await (await post("v1/tag", body, signal)).json()).texts;

/** Why the words of one sentence have their tags, for each step of EM. */
export const explain = async (body, signal) => (await post("v1/explain", body, signal)).json();

/** The text or the sentences of a file. */
export async function readFile(file) {
  const body = new FormData();
  body.append("file", file);
  return (await request("v1/read", { method: "POST", body })).json();
}

/** Sentences as text in one of the formats "conllu", "tsv", "json". */
export const writeSentences = async (sentences, format) =>
  (await post(`v1/conllu?format=${format}`, { sentences })).text();
