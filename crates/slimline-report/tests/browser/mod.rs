//! Headless Chromium, driven by the DevTools protocol through its pipes.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

/// How a page is looked at.
#[derive(Clone, Copy)]
pub(crate) struct View {
    pub(crate) width: u32,
    pub(crate) is_dark: bool,
    pub(crate) has_scripts: bool,
}

/// Wide, light, with scripts.
pub(crate) const WIDE: View = View { width: 1400, is_dark: false, has_scripts: true };

/// Texts whose contrast with what is behind them is below 4.5, of all that have a colour behind them.
pub(crate) const PALE: &str = "(() => {
  const channels = colour => colour.match(/[\\d.]+/g).map(Number);
  const luminance = colour => channels(colour).slice(0, 3).map(value => value / 255)
    .map(value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4)
    .reduce((sum, value, place) => sum + value * [0.2126, 0.7152, 0.0722][place], 0);
  const behind = element => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if ((channels(colour)[3] ?? 1) > 0) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  const has_text = element => [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim() !== '');
  document.querySelectorAll('details').forEach(details => { details.open = true; });
  const texts = [...document.body.querySelectorAll('*')].filter(has_text)
    .filter(element => !element.matches('script') && element.checkVisibility());
  const contrast = element => {
    const [a, b] = [getComputedStyle(element).color, behind(element)].map(luminance);
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  };
  if (texts.length < 100) throw Error(`${texts.length} texts`);
  return texts.filter(text => contrast(text) < 4.5).map(text => `${text.className} ${text.textContent}`);
})()";

/// Links to nothing, identifiers of several elements, tables without a caption, fields without a label.
pub(crate) const BROKEN: &str = "[
  ...[...document.querySelectorAll('a[href^=\"#\"]')].filter(link => !document.getElementById(link.hash.slice(1))),
  ...[...document.querySelectorAll('[id]')].filter(one => document.querySelectorAll(`[id='${one.id}']`).length > 1),
  ...[...document.querySelectorAll('table')].filter(table => !table.caption),
  ...[...document.querySelectorAll('input')].filter(input => input.labels.length === 0),
].map(element => element.outerHTML.slice(0, 80))";

/// Links to parts of the page that are cut off.
pub(crate) const HIDDEN_PARTS: &str = "[...document.querySelectorAll('nav a')].filter(link => {
    const { left, right, height } = link.getBoundingClientRect();
    return left < 0 || right > innerWidth || height === 0;
  }).map(link => link.textContent)";

/// Whether headings leave out no level.
pub(crate) const LEVELS: &str = "[...document.querySelectorAll('h1, h2, h3, h4')].map(head => Number(head.tagName[1]))
  .every((level, place, all) => place === 0 ? level === 1 : level <= all[place - 1] + 1)";

pub(crate) struct Browser {
    process: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// Of the page that is open.
    session: String,
    asked: u64,
    /// What was told without being asked for since the page was opened.
    told: Vec<Value>,
    _profile: TempDir,
}

impl Browser {
    /// `None` where there is no Chromium, which is said.
    pub(crate) fn start() -> Option<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        if !std::env::split_paths(&path).any(|directory| directory.join("chromium").is_file()) {
            eprintln!("SKIPPED: no chromium in PATH, so no page was opened (apt-get install chromium)");
            return None;
        }
        let profile = tempfile::tempdir().unwrap();
        // It reads requests from descriptor 3 and answers to 4. Nothing but our own page is opened, so that root, who has no
        // sandbox, may do it.
        let mut process = Command::new("sh")
            .args(["-c", "exec chromium \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "sh"])
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (requests, answers) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let answers = BufReader::new(answers);
        let (session, asked, told) = (String::new(), 0, Vec::new());
        Some(Self { process, requests, answers, session, asked, told, _profile: profile })
    }

    /// Opens a page anew and waits until it is there.
    pub(crate) fn open(&mut self, page: &Path, View { width, is_dark, has_scripts }: View) {
        self.session.clear();
        let target = self.call("Target.createTarget", json!({ "url": "about:blank" }))["targetId"].clone();
        let attached = self.call("Target.attachToTarget", json!({ "targetId": target, "flatten": true }));
        self.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Log"] {
            self.call(&format!("{domain}.enable"), json!({}));
        }
        let size = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
        let scheme = if is_dark { "dark" } else { "light" };
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", features);
        self.call("Emulation.setScriptExecutionDisabled", json!({ "value": !has_scripts }));
        self.told.clear();
        self.call("Page.navigate", json!({ "url": format!("file://{}", page.display()) }));
        while !self.told.iter().any(|told| told["method"] == "Page.loadEventFired") {
            let told = self.next();
            self.told.push(told);
        }
    }

    /// The value of an expression in the page.
    #[track_caller]
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let answer = self.call("Runtime.evaluate", asked);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Presses `Tab` or `Enter`.
    pub(crate) fn press(&mut self, key: &str) {
        let (code, text) = if key == "Tab" { (9, "") } else { (13, "\r") };
        for kind in ["keyDown", "keyUp"] {
            let event = json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text });
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// The picture of what is in sight, as PNG in base64.
    pub(crate) fn screenshot(&mut self) -> String {
        let picture = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        picture["data"].as_str().unwrap().to_owned()
    }

    /// What the page has complained of: exceptions, what it was forbidden, and all else that it wrote on the console.
    pub(crate) fn complaints(&self) -> Vec<&Value> {
        let is_complaint = |told: &&Value| {
            let method = told["method"].as_str().unwrap_or_default();
            ["Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"].contains(&method)
        };
        self.told.iter().filter(is_complaint).collect()
    }

    fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.asked += 1;
        let mut request = json!({ "id": self.asked, "method": method, "params": parameters });
        if !self.session.is_empty() {
            request["sessionId"] = self.session.as_str().into();
        }
        self.requests.write_all(format!("{request}\0").as_bytes()).unwrap();
        loop {
            let mut answer = self.next();
            if answer["id"] == self.asked {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].take();
            }
            self.told.push(answer);
        }
    }

    fn next(&mut self) -> Value {
        let mut message = Vec::new();
        self.answers.read_until(0, &mut message).unwrap();
        assert_eq!(message.pop(), Some(0), "Chromium ended");
        serde_json::from_slice(&message).unwrap()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
