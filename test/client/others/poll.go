// A client as others write them: strict types, the fields that it knows, polling. It prints a line for each step.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"
)

type Accepted struct {
	ID string `json:"id"`
}

type Record struct {
	ID         string   `json:"id"`
	Status     string   `json:"status"`
	Verdict    *string  `json:"verdict"`
	ExitCode   *int     `json:"exit_code"`
	Stdout     *string  `json:"stdout"`
	Stderr     *string  `json:"stderr"`
	CPUTime    *float64 `json:"cpu_time"`
	WallTime   *float64 `json:"wall_time"`
	MemoryPeak *int64   `json:"memory_peak"`
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func call(method, path, body string, wanted int, into any) {
	request, err := http.NewRequest(method, os.Getenv("SERVER")+path, bytes.NewBufferString(body))
	check(err)
	request.Header.Set("X-API-Key", os.Getenv("KEY"))
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	check(err)
	defer answer.Body.Close()
	if answer.StatusCode != wanted {
		panic(fmt.Sprint(path, ": ", answer.StatusCode))
	}
	check(json.NewDecoder(answer.Body).Decode(into))
}

func poll(id string) Record {
	for {
		var record Record
		call("GET", "/api/result/"+id, "", 200, &record)
		if record.Status != "pending" && record.Status != "running" {
			return record
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func main() {
	var languages []string
	call("GET", "/api/languages", "", 200, &languages)
	fmt.Println("languages", strings.Join(languages, ","))

	var accepted Accepted
	call("POST", "/api/submit", `{"language": "python", "code": "print(6 * 7)"}`, 202, &accepted)
	record := poll(accepted.ID)
	fmt.Println("polled", record.Status, *record.Verdict, strings.TrimSpace(*record.Stdout))

	call("POST", "/api/submit?wait=true", `{"language": "cpp", "code": "int main() {}"}`, 408, &accepted)
	record = poll(accepted.ID)
	fmt.Println("waited", record.Status, *record.Verdict)
}
