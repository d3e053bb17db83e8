"""forward_values.py DIR: the lab models built anew (lab_nets.py), with the weights that
forward_values.cpp has written. Outputs, losses, gradients and what evaluation gives after one step
of running statistics must be the same to TOLERANCE, relative to the largest."""
import os
import sys

import torch
import torch.nn.functional as F

from lab_nets import (AlexNet, MnistCnn, MnistLinear, ResNet50, SvhnCnn, TextNnlm, WideResNet)

TOLERANCE = 2e-5  # float32, sums in another order


MODELS = {
    'mnist-cnn': MnistCnn,
    'mnist-linear': MnistLinear,
    'resnet50': lambda: ResNet50(16, 1000),
    'artists-resnet': lambda: ResNet50(16, 7),
    'alexnet-owt': lambda: AlexNet(16, 1000),
    'wrn-16-10': lambda: WideResNet(16, 2),
    'text-nnlm': TextNnlm,
    'svhn-cnn': SvhnCnn,
}


class Comparison:
    def __init__(self, name):
        self.name = name
        self.worst = 0.0
        self.wrong = []

    def same(self, what, ours, theirs):
        if ours.shape != theirs.shape:
            self.wrong.append(f'{what}: {tuple(ours.shape)} and {tuple(theirs.shape)}')
            return
        scale = max(theirs.abs().max().item(), 1e-3)
        difference = (ours.double() - theirs.double()).abs().max().item() / scale
        self.worst = max(self.worst, difference)
        if not difference <= TOLERANCE:
            self.wrong.append(f'{what}: {difference:.2g}')


def compare(name, values):
    model = MODELS[name]()
    model.load_state_dict({key[len('state/'):]: value for key, value in values.items()
                           if key.startswith('state/')})
    check = Comparison(name)
    model.train()
    output = model(values['input'])
    loss = model.loss(output, values['labels']) if hasattr(model, 'loss') else F.nll_loss(
        output, values['labels'])
    loss.backward()
    check.same('output', values['output'], output.detach())
    check.same('loss', values['loss'], loss.detach())
    penalty = model.penalty().detach() if hasattr(model, 'penalty') else torch.zeros(())
    check.same('penalty', values['penalty'], penalty)
    for key, parameter in model.named_parameters():
        check.same(f'gradient of {key}', values[f'gradient/{key}'], parameter.grad)
    predicted = model.predict(output) if hasattr(model, 'predict') else output.argmax(1)
    check.same('predicted', values['predicted'], predicted)
    model.eval()
    with torch.no_grad():
        check.same('output of evaluation', values['output of evaluation'], model(values['input']))
    return check


def main(folder):
    if sorted(os.listdir(folder)) != sorted(MODELS):
        print(f'models: {sorted(os.listdir(folder))}, not {sorted(MODELS)}')
        return 1
    failed = False
    for name in MODELS:
        check = compare(name, torch.load(os.path.join(folder, name), weights_only=False))
        print(f'{name}: within {check.worst:.1g}' if not check.wrong else
              f'{name}: differs in {"; ".join(check.wrong[:5])}')
        failed = failed or bool(check.wrong)
    return 1 if failed else 0


sys.exit(main(sys.argv[1]))
