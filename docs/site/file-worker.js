// Search runs in a worker. Browsers allow none for pages that are opened as files, so there a hidden frame does its work.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      this.inner = frame.contentWindow
      this.waiting = []
      this.inner.postMessage = data => setTimeout(() => this.dispatchEvent(new MessageEvent("message", { data })))
      const script = this.inner.document.createElement("script")
      script.src = address
      script.addEventListener("load", () => {
        const waiting = this.waiting
        this.waiting = null
        waiting.forEach(data => this.postMessage(data))
      })
      this.inner.document.body.append(script)
    }
    postMessage(data) {
      if (this.waiting) this.waiting.push(data)
      else setTimeout(() => this.inner.dispatchEvent(new MessageEvent("message", { data })))
    }
    terminate() {}
  }
}
