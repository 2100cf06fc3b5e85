// The search of the documentation works in a worker, which browsers refuse to pages that are opened from a
// folder. There a hidden frame does its work. (mkdocs-material calls such a script an "iframe-worker".)
"use strict";
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.onmessage = null;
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.inside = frame.contentWindow;
      this.ready = new Promise((resolve) => {
        this.inside.reply = (data) => {
          const event = new MessageEvent("message", { data });
          if (this.onmessage) this.onmessage(event);
          this.dispatchEvent(event);
        };
        this.inside.begun = resolve;
      });
      const before = `
        postMessage = (data) => reply(data);
        importScripts = (...urls) => urls.reduce((last, url) => last.then(() => new Promise((resolve) => {
          const script = document.createElement("script");
          script.src = url;
          script.onload = resolve;
          document.body.appendChild(script);
        })), Promise.resolve());`;
      const inner = frame.contentDocument;
      for (const [key, value] of [["textContent", before], ["src", String(url)]]) {
        const script = inner.createElement("script");
        script[key] = value;
        if (key === "src") script.onload = () => this.inside.begun();
        inner.body.appendChild(script);
      }
    }
    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data })));
    }
    terminate() {}
  };
}
