package browser

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each test looks at what a user sees: a picture counts when it has been drawn.

// seesPicture waits until the page has drawn a picture of the given width, at least so often.
func (p *tab) seesPicture(width, times int) {
	p.t.Helper()
	p.until(fmt.Sprintf("Array.from(document.images).filter(i => i.complete && i.naturalWidth === %d && i.getClientRects().length > 0).length >= %d",
		width, times))
}

// idle waits until no run is shown any more.
func (p *tab) idle() {
	p.t.Helper()
	p.until(`document.querySelector("[title='Stop generation']") === null`)
}

func TestAPictureOfAToolIsVisible(t *testing.T) {
	p := open(t, gateway+"/"+session(t, "Picture", "/say before"))
	p.shows("before")
	p.settled()
	p.sends("/tool echo {\"text\":\"a picture\",\"image\":64}\n/say done")
	p.answers("done")
	p.seesPicture(64, 1)
}

// uploads gives the page a picture of random pixels, as its button does, and sends it.
func (p *tab) uploads(width int) {
	p.t.Helper()
	eval[bool](p, fmt.Sprintf(`(async () => {
		const canvas = document.createElement("canvas"), context = canvas.getContext("2d");
		canvas.width = canvas.height = %d;
		const pixels = context.createImageData(canvas.width, canvas.height);
		for (let i = 0; i < pixels.data.length; i++) pixels.data[i] = i %% 4 === 3 ? 255 : Math.random() * 256;
		context.putImageData(pixels, 0, 0);
		const data = await new Promise((done) => canvas.toBlob(done, "image/png"));
		const files = new DataTransfer(), input = document.querySelector("input[type=file]");
		files.items.add(new File([data], "upload.png", {type: "image/png"}));
		input.files = files.files;
		input.dispatchEvent(new Event("change", {bubbles: true}));
	})(), true`, width))
	p.seesPicture(width, 1) // above the text
	p.click("form [type=submit], [title='Send message'], [aria-label='Send message']")
}

func TestALargePictureOfAUserIsVisible(t *testing.T) {
	id := session(t, "Upload", "/say before")
	p := open(t, gateway+"/"+id)
	p.shows("before")
	p.settled()
	eval[bool](p, `(document.querySelector("textarea").focus(), true)`)
	p.types("/say I see it")
	p.uploads(700) // more than 1 MB
	p.shows("I see it")
	p.idle()
	p.seesPicture(700, 2) // in the conversation and in the panel
	if text := p.text(); strings.Contains(text, "Image data missing") {
		t.Errorf("the panel lacks the picture: %s", text)
	}
	again := open(t, gateway+"/"+id)
	again.shows("I see it")
	again.seesPicture(700, 1)
}

func TestPicturesOfASharedPageNeedNoServer(t *testing.T) { // K2
	id := session(t, "Shared pictures", "/say before")
	p := open(t, gateway+"/"+id)
	p.shows("before")
	p.settled()
	p.uploads(300) // more than 64 KiB
	p.shows("The clock says")
	p.idle()
	p.sends("/tool echo {\"text\":\"a picture\",\"image\":48}\n/say shared")
	p.answers("shared")
	p.idle()
	var shared struct {
		HTML string `json:"html"`
	}
	ask(t, http.MethodPost, "/sessions/share", map[string]any{"sessionId": id}, &shared)
	file := filepath.Join(t.TempDir(), "shared.html")
	if err := os.WriteFile(file, []byte(shared.HTML), 0o600); err != nil {
		t.Fatal(err)
	}
	alone := open(t, "file://"+file)
	alone.shows("The clock says")
	alone.seesPicture(300, 1)
	alone.seesPicture(48, 1)
}

func TestAQueryThatIsTooLargeIsRefusedVisibly(t *testing.T) {
	p := open(t, gateway+"/"+session(t, "Refused", "/say before"))
	p.shows("before")
	p.settled()
	p.uploads(2600)
	p.shows("The query was refused: the body is larger than 20971520 bytes")
	p.idle()
	p.sends("/say it still works")
	p.answers("it still works")
}

func TestApprovalsAndQuestionsAreAnsweredByTyping(t *testing.T) {
	p := open(t, gateway+"/"+session(t, "Approval", "/say before"))
	p.shows("before")
	p.settled()
	p.sends("/approve echo {\"text\":\"careful\"}\n/ask What is your name?\n/say both are decided")
	p.shows("The agent waits for your approval to run echo. Type yes to allow it, or no to refuse it.")
	p.idle()
	p.sends("yes")
	p.shows("You allowed what the agent asked for.", "The agent asks: What is your name?")
	p.idle()
	p.sends("Ann")
	p.shows("You answered: Ann")
	p.answers("both are decided")
}

func TestASecondWindowAndAReloadedPageFollowARun(t *testing.T) {
	id := session(t, "Two windows", "/say before")
	first, second := open(t, gateway+"/"+id), open(t, gateway+"/"+id)
	for _, p := range []*tab{first, second} {
		p.shows("before")
		p.settled()
	}
	first.sends("/say it begins\n/stream 600 20 8\n/say it ends here")
	second.shows("it begins 0")
	second.until(`document.querySelector("[title='Stop generation']") !== null`)
	reloaded := open(t, gateway+"/"+id)
	reloaded.shows("it begins 0")
	length := len(reloaded.text())
	reloaded.until(fmt.Sprintf("document.body.innerText.length > %d", length))
	for _, p := range []*tab{first, second, reloaded} {
		p.answers("it ends here")
		p.idle()
		p.until(`document.body.innerText.split("it begins 0").length === 2`) // not twice
	}
	second.sends("/say from the second window")
	first.shows("Sent from another window: /say from the second window")
	first.answers("from the second window")
}

func TestThePageWorksWithALogin(t *testing.T) {
	key := regexp.MustCompile(`ak_[0-9a-z]+_[0-9a-z]+`).FindString(locked.Logs() + output(t))
	if key == "" {
		t.Fatal("the gateway printed no key")
	}
	p := open(t, locked.URL+"/")
	p.shows("API key")
	p.click("#key")
	p.types("ak_wrong")
	p.click("button")
	p.shows("the API key is not valid")
	eval[bool](p, `(document.querySelector("#key").value = "", document.querySelector("#key").focus(), true)`)
	p.types(key)
	p.click("button")
	p.shows("What shall the agent do?")
	p.sends("/say hello\n/tool echo {\"text\":\"a picture\",\"image\":64}\n/say after")
	p.answers("after")
	p.seesPicture(64, 1)
	second := open(t, locked.URL+"/"+p.session())
	second.shows("hello", "after")
	p.idle()
	p.sends("/say live with a login")
	second.shows("live with a login")
	if cookies := eval[string](p, "document.cookie"); cookies != "" {
		t.Errorf("scripts can read %q", cookies)
	}
	response, err := http.Get(locked.URL + "/api/v1/sessions")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a login: got %s, want 401", response.Status)
	}
}

// output returns what the locked gateway has printed.
func output(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(lockedDir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil { // a folder is not
			all.Write(text)
		}
	}
	return all.String()
}
