// Material searches in a web worker, and browsers start none for a page that was opened from disk. There a hidden frame
// does the same. Its plugin `offline` would load such a script from elsewhere unless there is one of this name.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.early = [];
      const script = document.createElement("script");
      script.src = address;
      script.onload = () => {
        this.early.forEach((message) => this.deliver(message));
        this.early = null;
      };
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.documentElement.append(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      frame.contentDocument.documentElement.append(script);
    }
    postMessage(message) {
      if (this.early) this.early.push(message);
      else this.deliver(message);
    }
    deliver(data) {
      this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }));
    }
    terminate() {}
  };
}
