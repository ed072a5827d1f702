/** Taking the result away: download, copy, and a link to the settings. */

import { writeSentences } from "./api.js";
import { announce, byId, el } from "./dom.js";
import { t } from "./texts.js";

const ENDINGS = { conllu: "conllu", tsv: "tsv", json: "jsonl" };

/**
 * @param {() => import("./corrections.js").TaggedText} result  the text that is shown
 * @param {(error: Error) => void} onError
 */
export function setUpDownload(result, onError) {
  const format = byId("format");
  const onClick = (id, action) => byId(id).addEventListener("click", () => action(byId(id)).catch(onError));
  const write = () => writeSentences(result().corrected(), format.value);
  onClick("save", async () => {
    const name = `${result().languages[0].code}.${ENDINGS[format.value]}`;
    save(await write(), name);
    result().changed = false;
    announce(t("download.saved", { name }));
  });
  onClick("copy", async (button) => {
    await copy(await write());
    result().changed = false;
    flash(button, "download.copied", "download.copy");
  });
  onClick("link", async (button) => {
    await copy(location.href);
    flash(button, "download.link_copied", "download.link");
  });
}

function save(content, name) {
  const address = URL.createObjectURL(new Blob([content], { type: "text/plain" }));
  el("a", { href: address, download: name }).click();
  URL.revokeObjectURL(address);
}

async function copy(content) {
  try {
    await navigator.clipboard.writeText(content);
  } catch {
    throw new Error(t("error.copy"));
  }
}

/** Show on the button for a moment that it has done its work. */
function flash(button, done, label) {
  announce(t(done));
  button.textContent = t(done);
  setTimeout(() => (button.textContent = t(label)), 2500);
}
