// What was wrong with the token that was given before is in the address, and is shown as text.
document.getElementById("problem").textContent = new URLSearchParams(location.search).get("problem") ?? "";
document.getElementById("token").focus();
