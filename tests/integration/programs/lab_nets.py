"""The lab models in Python, from their papers' and tutorials' descriptions, with the names that ours give
their weights. forward_values.py shows that they are the same nets; tests/bench/torch_train.py trains
them."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class MnistLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(28 * 28, 10)

    def forward(self, x):
        return F.log_softmax(self.fc(x.flatten(1)), dim=1)


class MnistCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, kernel_size=5)
        self.conv2 = nn.Conv2d(10, 20, kernel_size=5)
        self.fc1 = nn.Linear(320, 50)
        self.fc2 = nn.Linear(50, 10)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.conv2(x), 2))
        x = F.relu(self.fc1(x.flatten(1)))
        return F.log_softmax(self.fc2(x), dim=1)


class Bottleneck(nn.Module):
    def __init__(self, channels, planes, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, planes, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.conv3 = nn.Conv2d(planes, 4 * planes, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * planes)
        self.downsample = None
        if stride != 1 or channels != 4 * planes:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels, 4 * planes, 1, stride=stride, bias=False),
                nn.BatchNorm2d(4 * planes))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet50(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        channels = width
        for stage, (blocks, stride) in enumerate([(3, 1), (4, 2), (6, 2), (3, 2)]):
            planes = width << stage
            layers = []
            for block in range(blocks):
                layers.append(Bottleneck(channels, planes, stride if block == 0 else 1))
                channels = 4 * planes
            setattr(self, f'layer{stage + 1}', nn.Sequential(*layers))
        self.fc = nn.Linear(channels, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, stride=2, padding=1)
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = stage(x)
        return F.log_softmax(self.fc(x.mean(dim=(2, 3))), dim=1)


class AlexNet(nn.Module):
    def __init__(self, width, classes, dropout=0.0):
        super().__init__()
        one, three, six, four = width, 3 * width, 6 * width, 4 * width
        self.features = nn.Sequential(
            nn.Conv2d(3, one, 11, stride=4, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2),
            nn.Conv2d(one, three, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2),
            nn.Conv2d(three, six, 3, padding=1), nn.ReLU(),
            nn.Conv2d(six, four, 3, padding=1), nn.ReLU(),
            nn.Conv2d(four, four, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2))
        self.classifier = nn.Sequential(
            nn.Dropout(dropout), nn.Linear(four * 6 * 6, 64 * width), nn.ReLU(),
            nn.Dropout(dropout), nn.Linear(64 * width, 64 * width), nn.ReLU(),
            nn.Linear(64 * width, classes))

    def forward(self, x):
        x = F.adaptive_avg_pool2d(self.features(x), 6)
        return F.log_softmax(self.classifier(x.flatten(1)), dim=1)


class WideBlock(nn.Module):
    def __init__(self, channels, out, dropout):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(out, eps=1e-5, momentum=0.1)
        self.drop = nn.Dropout(dropout)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(out, eps=1e-5, momentum=0.1)
        self.shortcut = nn.Conv2d(channels, out, 1) if channels != out else None

    def forward(self, x):
        y = self.drop(F.relu(self.bn1(self.conv1(x))))
        y = F.relu(self.bn2(self.conv2(y)))
        return y + (x if self.shortcut is None else self.shortcut(x))


class WideResNet(nn.Module):
    def __init__(self, depth, width, dropout=0.0):
        super().__init__()
        self.conv = nn.Conv2d(1, 16, 3, padding=1)
        self.bn = nn.BatchNorm2d(16, eps=1e-5, momentum=0.1)
        channels = 16
        for group in range(3):
            out = (16 << group) * width
            blocks = []
            for _ in range((depth - 4) // 6):
                blocks.append(WideBlock(channels, out, dropout))
                channels = out
            setattr(self, f'group{group + 1}', nn.Sequential(*blocks))
        self.fc = nn.Linear(channels, 10)

    def forward(self, x):
        x = self.group1(F.relu(self.bn(self.conv(x))))
        x = self.group2(F.max_pool2d(x, 2))
        x = self.group3(F.max_pool2d(x, 2))
        return F.log_softmax(self.fc(x.mean(dim=(2, 3))), dim=1)

    def penalty(self):
        kernels = [m.weight for m in self.modules() if isinstance(m, (nn.Conv2d, nn.Linear))]
        return 5e-6 * sum((kernel ** 2).sum() for kernel in kernels)


class SvhnCnn(nn.Module):
    def __init__(self):
        super().__init__()
        channels = 3
        for pair, out in enumerate([32, 64, 128]):
            setattr(self, f'pair{pair + 1}', nn.Sequential(
                nn.Conv2d(channels, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU(),
                nn.Conv2d(out, out, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)))
            channels = out
        self.fc1 = nn.Linear(128 * 4 * 4, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        x = self.pair3(self.pair2(self.pair1(x))).flatten(1)
        return F.log_softmax(self.fc2(F.relu(self.fc1(x))), dim=1)


class TextNnlm(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(1 << 17, 128)
        self.fc1 = nn.Linear(128, 256)
        self.fc2 = nn.Linear(256, 64)
        self.fc3 = nn.Linear(64, 1)

    def forward(self, words):
        known = (words != 0).float()
        total = (self.embedding(words) * known[:, :, None]).sum(1)
        x = total / known.sum(1).clamp(min=1).sqrt()[:, None]
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))

    def loss(self, output, labels):
        p = torch.sigmoid(output[:, 0])
        return F.binary_cross_entropy(p, labels.float())

    def predict(self, output):
        return (torch.sigmoid(output[:, 0]) > 0.5).long()
