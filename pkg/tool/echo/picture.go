package echo

import (
	"bytes"
	"fmt"
	"image"
	"image/png"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/media"
)

// picture is a PNG of so many pixels each way, which looks the same every time and is hard to compress.
func picture(side int) (event.InputPart, error) {
	grey := image.NewGray(image.Rect(0, 0, side, side))
	noise := uint32(1)
	for i := range grey.Pix {
		noise = noise*1664525 + 1013904223
		grey.Pix[i] = byte(noise >> 24)
	}
	var out bytes.Buffer
	if err := png.Encode(&out, grey); err != nil {
		return event.InputPart{}, fmt.Errorf("encode a picture: %w", err)
	}
	return event.InputPart{Type: media.Image, MediaType: "image/png", Name: "echo.png", Data: out.Bytes()}, nil
}
